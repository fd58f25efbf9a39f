// The policy of memory retrieval: the chain of steps on a real question, two versions side by side, its settings, and a
// place to try redaction patterns.

import { all, call, get, post } from "./api.js";
import { count, h, number, put } from "./dom.js";
import { failed, field, head, problem, say, showFieldErrors, toast, whileBusy } from "./parts.js";
import { chain } from "./policy-chain.js";
import { difference } from "./policy-difference.js";

/** Version 0 is the policy as it was first published; only a built-in version has no date. */
const versionName = ({ version, created_at: at }) => (version === 0 ? "As first published" : at ? `Version ${version}` : "Built-in defaults");

const BUILT_IN = { iban: "IBAN", card: "card numbers", phone: "phone numbers", ip_address: "IP addresses", api_key: "API keys", bearer_token: "bearer tokens", private_key: "private keys" };

export async function show(main, route, signal) {
  let versions;
  try {
    versions = (await get("/v1/policies/retrieval/versions?limit=100", { signal })).items;
  } catch (error) {
    if (error.name !== "AbortError") put(main, head("Policy"), problem(error));
    return;
  }
  if (!versions.length) versions = (await get("/v1/policies", { signal })).items.filter((item) => item.name === "retrieval");
  const current = h("span");
  const question = questionForm(signal);
  const update = (list) => {
    put(current, !list[0].created_at ? "The built-in defaults are in use." : `Version ${list[0].version} is in use.`);
    question.setVersions(list);
    settings.setVersions(list);
  };
  // A new version changes the lists of versions; what was typed and the chains that are shown stay.
  const again = async () => update((await get("/v1/policies/retrieval/versions?limit=100", { signal })).items);
  const settings = settingsPanel(() => again().catch(failed));
  put(main, head("Policy", ["What happens to the memories that a search finds before an application gets them. ", current]),
    question, h("div.policy", settings, redactionPlace(versions[0])));
  update(versions);
}

/** A question of a user in a thread, run through one version or two. */
function questionForm(signal) {
  const user = h("input", { type: "text", placeholder: "default", autocomplete: "off" });
  const thread = h("select");
  const question = h("input", { type: "text", autocomplete: "off", placeholder: "What does the user say?" });
  let known = [];
  const [left, right] = [h("select"), h("select")];
  /** The newest version is chosen on the left unless another one was; the right side keeps its choice. */
  const setVersions = (versions) => {
    known = versions;
    const [chosen, compared] = [left.selectedIndex > 0 ? left.value : "", right.value];
    const options = () => versions.map((item) => h("option", { value: `retrieval@${item.version}` }, versionName(item)));
    put(left, options());
    put(right, h("option", { value: "" }, "nothing"), options());
    if (chosen) left.value = chosen;
    right.value = compared;
  };
  const out = h("div.chains");
  const go = h("button.primary", { type: "submit" }, "Show the steps");
  const learn = async () => {
    const { items } = await all("/v1/threads", { user_id: user.value.trim() || "default" }, 200).catch(() => ({ items: [] }));
    put(thread, items.map((item) => h("option", { value: item.id }, `${item.title || "Untitled"} (${number(item.message_count)})`)), items.length === 0 && h("option", { value: "" }, "this user has no threads"));
  };
  user.addEventListener("change", learn);
  learn();
  const form = h("form.policy-question", { novalidate: true },
    field("Question", question, { name: "query", hint: "Memories of this user are searched for it." }),
    field("User", user, { name: "userId" }), field("Thread", thread, { name: "sessionId" }), field("Policy", left), field("Compare with", right), go);
  const showSteps = async () => {
    const run = (policy) => post("/v1/memory/retrieve", { userId: user.value.trim() || "default", sessionId: thread.value || null, useMemory: true, query: question.value.trim(), policy, explain: true }, { signal });
    try {
      const chosen = [left, right].filter((list) => list.value).map((list) => list.value);
      const answers = await Promise.all(chosen.map(run));
      const chains = await Promise.all(answers.map((answer) => chain(answer, user.value.trim() || "default", signal)));
      const sides = answers.map((answer, index) => {
        const policy = known.find((item) => `retrieval@${item.version}` === chosen[index]);
        return { name: versionName(policy), policy, answer };
      });
      put(out, sides.length === 2 && difference(...sides), chains);
      say(answers.map((answer, index) => `${sides[index].name}: ${answer.metadata.includedResults} of ${answer.metadata.totalResults} memories.`).join(" "));
    } catch (error) {
      if (error.name !== "AbortError") put(out, problem(error));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (question.value.trim()) whileBusy(go, showSteps);
    else question.focus();
  });
  return Object.assign(h("section", { "aria-label": "The chain" }, form, out), { setVersions });
}

const numeric = (name, value, min, max, step = "1") => h("input", { type: "number", name, value, min, max, step });

/** The settings of a new version, which start from those of any earlier one. */
function settingsPanel(after) {
  let versions = [];
  const place = h("div");
  const from = h("select");
  from.addEventListener("change", () => put(place, settingsForm(versions[from.selectedIndex], after)));
  const panel = h("section.panel", { "aria-label": "Settings" }, h("h2", "Settings"), h("p.muted", "Storing them makes a new version, which is used at once; older ones stay available to requests that name them."),
    field("Start from", from, { hint: "To go back to an older version, choose it here and store it as a new one." }), place);
  return Object.assign(panel, { setVersions: (list) => {
    versions = list;
    put(from, list.map((item) => h("option", versionName(item))));
    // After a version was stored, the form shows it already.
    if (!place.firstChild) put(place, settingsForm(list[0], after));
  } });
}

function settingsForm(policy, after) {
  const { retrieval, interleaving, redaction } = policy;
  const select = (name, chosen, options) => h("select", { name }, options.map((value) => h("option", { value, selected: value === chosen }, value.replace("_", " "))));
  const trouble = h("div");
  const form = h("form", { novalidate: true }, trouble,
    h("div.pair",
      field("Memories", numeric("topK", retrieval.topK, 1, 20), { name: "topK", hint: "From 1 to 20." }),
      field("Sentences per memory", numeric("clipSentences", retrieval.clipSentences, 1, 5), { name: "clipSentences", hint: "From 1 to 5." }),
      field("Tokens in total", numeric("maxTokens", retrieval.maxTokens, 100, 3000), { name: "maxTokens", hint: "From 100 to 3,000." }),
      field("Minimum score", numeric("minScore", retrieval.minScore, 0, 1, "0.01"), { name: "minScore", hint: "From 0 to 1." }),
      field("Sentences", select("clipping", retrieval.clipping, ["best", "first"]), { name: "clipping", hint: "Those that match the query, or the first ones." }),
      field("Search", select("searchType", retrieval.searchType, ["hybrid", "semantic", "keyword"]), { name: "searchType" }),
      field("Order", select("strategy", interleaving.strategy, ["score_first", "alternate", "recency_first"]), { name: "strategy", hint: "How relevance and time take turns." })),
    h("label.check", h("input", { type: "checkbox", name: "enableRedaction", checked: retrieval.enableRedaction }), h("span", "Redact matches of the patterns")),
    redactionFields(retrieval, redaction),
    h("div.row.end", h("button.primary", { type: "submit" }, "Store as a new version")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    put(trouble);
    const data = new FormData(form);
    const whole = readRedaction(form);
    const body = {
      retrieval: { topK: Number(data.get("topK")), clipSentences: Number(data.get("clipSentences")), maxTokens: Number(data.get("maxTokens")), minScore: Number(data.get("minScore")), searchType: data.get("searchType"), clipping: data.get("clipping"), enableRedaction: data.has("enableRedaction"), customRedactionPatterns: whole.patterns },
      interleaving: { ...interleaving, strategy: data.get("strategy") }, redaction: { ...redaction, replacement: whole.replacement, builtIn: whole.builtIn },
    };
    if (body.retrieval.enableRedaction && !whole.patterns.length && !whole.builtIn.length) {
      put(trouble, problem({ detail: "No pattern is chosen, so nothing would be redacted.", remediation: "Choose a built-in pattern or write your own, or do not redact." }, { compact: true }));
      return;
    }
    try {
      const { data: stored } = await call("PUT", "/v1/admin/memory-settings", { body });
      toast(`Version ${stored.version} is in use`);
      after();
    } catch (error) {
      const left = showFieldErrors(form, error.errors);
      if (!error.errors?.length || left.length) put(trouble, problem({ ...error, detail: left.join(" ") || error.detail }, { compact: true }));
    }
  });
  return form;
}

function redactionFields(retrieval, redaction) {
  return [
    h("fieldset.built-in", h("legend", "Built-in patterns"), h("p.hint", "E-mail addresses, US social security numbers and 16-digit card numbers are always replaced."), Object.entries(BUILT_IN).map(([name, label]) =>
      h("label.check", h("input", { type: "checkbox", name: "builtIn", value: name, checked: (redaction.builtIn ?? []).includes(name) }), h("span", label)))),
    field("Your own patterns", h("textarea", { rows: "3", name: "customRedactionPatterns", spellcheck: "false", value: (retrieval.customRedactionPatterns ?? []).join("\n"), placeholder: "EMP-\\d{6}" }), { name: "customRedactionPatterns", hint: "Regular expressions, one on each line." }),
    field("Replacement", h("input", { type: "text", name: "replacement", value: redaction.replacement ?? "", autocomplete: "off" }), { name: "replacement", hint: "The text that replaces a match." })];
}

function readRedaction(form) {
  const data = new FormData(form);
  return { patterns: String(data.get("customRedactionPatterns")).split("\n").map((line) => line.trim()).filter(Boolean), builtIn: data.getAll("builtIn"), replacement: String(data.get("replacement")) };
}

/** `phone` is built in; `custom[0]` is the first pattern of the user. */
const patternName = (name) => BUILT_IN[name] ?? name.replace(/^custom\[(\d+)\]$/, (_, index) => `your pattern ${Number(index) + 1}`);

/** A text goes in, the redacted text comes out; nothing is stored. */
function redactionPlace({ retrieval, redaction }) {
  const text = h("textarea", { rows: "3", value: "Call me on +49 170 1234567, my badge is EMP-004711." });
  const out = h("div.redacted");
  const form = h("form", { novalidate: true }, field("Text", text, { hint: "Nothing is stored." }), redactionFields(retrieval, redaction),
    h("div.row.end", h("button.primary", { type: "submit" }, "Try")), out);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { patterns, builtIn, replacement } = readRedaction(form);
    try {
      const answer = await post("/v1/policies/try", {
        settings: { retrieval: { enableRedaction: true, customRedactionPatterns: patterns, minScore: 0, clipSentences: 5, maxTokens: 3000 }, redaction: { replacement, builtIn } },
        candidates: [{ id: "text", content: text.value || " ", score: 1, timestamp: new Date().toISOString() }],
      });
      const effect = answer.steps.flatMap((step) => step.effects).find((item) => item.reason === "redacted");
      const result = effect ? `${count(effect.numbers.matches, "match", "matches")}: ${effect.numbers.patterns.map(patternName).join(", ")}.` : "No pattern matches.";
      put(out, h("p.verbatim.redacted-text", answer.memories[0]?.content ?? ""), h("p.muted", result));
      say(result);
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(out, problem(error, { compact: true }));
    }
  });
  return h("section.panel", { "aria-label": "Try redaction" }, h("h2", "Try redaction"), form);
}

