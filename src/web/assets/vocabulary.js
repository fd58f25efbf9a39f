// The vocabulary: the lists that messages are classified with, suggestions of terms that are missing, and the lexicon of other names.

import { call, get, post, query } from "./api.js";
import { count, h, number, put } from "./dom.js";
import { dialog, failed, field, head, load, problem, showFieldErrors, toast } from "./parts.js";

const LISTS = { topics: ["Topics", "What a message is about. It has one or several."], categories: ["Categories", "The area of life or work. It has one."], message_types: ["Message types", "What a message does: ask, tell, decide."], entity_types: ["Entity types", "Names that are picked out of a message."] };
const POLL_MS = 700;
/** For whom each preset is. */
const PRESETS = { personal: "the life of one person", project: "the work of a team", support: "the customers of a shop" };

export async function show(main, route, signal) {
  const lists = h("section.vocabulary-lists", { "aria-label": "Lists" });
  const suggestions = h("section.panel", { "aria-label": "Suggestions" });
  const lexicon = h("section.panel", { "aria-label": "Lexicon" });
  const version = h("span");
  let current = null;
  const edit = h("button", { type: "button", onclick: () => current && editDialog(current, update) }, "Edit the lists");
  const choose = h("button", { type: "button", onclick: () => current && presetDialog(current, update) }, "Choose a preset");
  put(main, head("Vocabulary", ["Closed lists, so that the same thing always has the same name. ", version], choose, edit),
    h("div.vocabulary", lists, h("div", suggestions, lexicon)));

  function draw(vocabulary) {
    current = vocabulary;
    put(version, `Version ${vocabulary.version}.`, vocabulary.preset && ` These are the terms for ${PRESETS[vocabulary.preset] ?? vocabulary.preset}: choose or edit others to suit your application.`);
    return Object.entries(LISTS).map(([name, [title, words]]) => h("section.panel", { "aria-label": title }, h("h2", title, " ", h("span.muted", number(vocabulary[name].length))), h("p.muted", words),
      h("p.terms", vocabulary[name].map((term) => h("span.tag", term)))));
  }
  const update = () => load(lists, get("/v1/vocabulary", { signal }), draw);
  await Promise.all([update(), suggestionList(suggestions, "topic", update, signal), load(lexicon, get("/v1/lexicon", { signal }), (value) => lexiconForm(value))]);
}

/** Terms that models miss, most frequent first. */
async function suggestionList(place, kind, changed, signal) {
  const pick = h("select", { "aria-label": "Kind of suggestion", onchange: () => suggestionList(place, pick.value, changed, signal) },
    [["topic", "topics"], ["category", "categories"]].map(([value, label]) => h("option", { value, selected: value === kind }, label)));
  const out = h("div");
  put(place, h("div.row.between", h("h2", "Suggestions"), pick), h("p.muted", "Terms that models suggested because the lists lack them. Approving one adds it to the list and to those messages."), out);
  await load(out, get(query("/v1/vocabulary/suggestions", { kind }), { signal }), ({ items }) => (items.length === 0 ? h("p.empty", "No term is missing. The embedded model suggests words that recur, if a third of a user’s messages fit no topic.")
    : h("ol.plain.suggestions", items.map((item) => suggestionItem(item, changed, signal)))));
}

function suggestionItem(item, changed, signal) {
  const state = h("p.muted", { role: "status" });
  const approve = h("button.small.primary", { type: "button", "aria-label": `Approve ${item.suggestion}` }, "Approve");
  approve.addEventListener("click", async () => {
    approve.disabled = true;
    put(state, "Approving…");
    try {
      const { vocabulary, job_id: job } = await post("/v1/admin/vocabulary/approve", { suggestion: item.suggestion, kind: item.kind });
      changed();
      await untilOver(job, (now) => put(state, `In version ${vocabulary.version}. `, backfillWords(now, item.frequency)), signal);
    } catch (error) {
      put(state);
      if (error.name !== "AbortError") failed(error);
      approve.disabled = false;
    }
  });
  return h("li.suggestion", h("div.row.between", h("strong", item.suggestion), h("span.row", h("span.muted", count(item.frequency, "time")), approve)),
    h("ul.plain.muted.examples", item.examples.slice(0, 3).map((example) => h("li", h("q", example)))), state);
}

/** How far the job is that adds an approved term to the messages that suggested it. */
function backfillWords(job, all) {
  if (job.state === "succeeded") return `Added to ${count(job.result?.memories ?? all, "message")}.`;
  if (job.state === "failed") return `Adding it to the messages failed: ${job.error?.detail ?? ""}`;
  if (job.state === "cancelled") return "Adding it to the messages was cancelled.";
  return `Added to ${number(job.progress?.memories ?? 0)} of ${count(all, "message")} so far…`;
}

async function untilOver(id, tell, signal) {
  for (;;) {
    const job = await get(query(`/v1/jobs/${id}`, { details: false }), { signal });
    tell(job);
    if (["succeeded", "failed", "cancelled"].includes(job.state)) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Lists for a purpose, instead of one's own. */
function presetDialog(vocabulary, after) {
  const trouble = h("div");
  const choose = async (name) => {
    try {
      const { version, job_id: job } = await post("/v1/admin/vocabulary/preset", { name });
      box.close();
      toast(job ? `Version ${version} is in use; stored messages get its terms in the background` : "These terms are in use already");
      after();
    } catch (error) {
      put(trouble, problem(error, { compact: true }));
    }
  };
  const box = dialog("Choose a preset", h("div", trouble,
    h("p.muted", "The lists become a new version, and stored messages are classified again. What users corrected stays."),
    h("ul.plain.suggestions", vocabulary.presets.map((name) => h("li.suggestion.row.between", h("span", h("strong", name), h("span.muted", ` for ${PRESETS[name] ?? name}`)),
      h("button.small", { type: "button", disabled: name === vocabulary.preset, "aria-label": `Use ${name}`, onclick: () => choose(name) }, name === vocabulary.preset ? "In use" : "Use"))))));
}

const lines = (text) => [...new Set(text.split("\n").map((line) => line.trim()).filter(Boolean))];

function editDialog(vocabulary, after) {
  const inputs = Object.fromEntries(Object.keys(LISTS).map((name) => [name, h("textarea", { rows: "7", name, value: vocabulary[name].join("\n"), spellcheck: "false" })]));
  const version = h("input", { type: "text", autocomplete: "off", placeholder: "today’s date" });
  const trouble = h("div");
  const form = h("form", { novalidate: true }, trouble,
    h("p.muted", "One term on each line. Messages that are already classified keep their terms and version."),
    h("div.pair", Object.entries(LISTS).map(([name, [title]]) => field(title, inputs[name], { name }))),
    field("Name of the version", version, { name: "version" }),
    h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Store as a new version")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, lines(input.value)]));
    if (version.value.trim()) body.version = version.value.trim();
    try {
      await call("PUT", "/v1/vocabulary", { body });
      box.close();
      toast("The new version is in use");
      after();
    } catch (error) {
      const left = showFieldErrors(form, error.errors);
      if (!error.errors?.length || left.length) put(trouble, problem({ ...error, detail: left.join(" ") || error.detail }, { compact: true }));
    }
  });
  const box = dialog("Edit the vocabulary", form);
  box.classList.add("wide");
}

/** Other names of terms, as `term, alias` lines; a CSV file can be dropped on it. */
export function lexiconForm({ entries }) {
  const text = h("textarea.lexicon", { rows: "6", spellcheck: "false", "aria-label": "Terms and their other names", placeholder: "k8s, Kubernetes", value: entries.map(({ term, alias }) => `${term}, ${alias}`).join("\n") });
  const trouble = h("div");
  const note = h("span.muted", { role: "status" }, count(entries.length, "entry", "entries"));
  const file = h("input.sr", { type: "file", accept: ".csv,.txt", tabindex: "-1", "aria-hidden": "true" });
  file.addEventListener("change", async () => {
    if (file.files[0]) text.value = [text.value.trim(), (await file.files[0].text()).replace(/^term[,;]alias\r?\n/i, "").trim()].filter(Boolean).join("\n");
    file.value = "";
  });
  const save = async () => {
    put(trouble);
    const pairs = lines(text.value).map((line) => line.split(/[,;]/).map((part) => part.trim()));
    const wrong = pairs.findIndex((pair) => pair.length !== 2 || !pair[0] || !pair[1]);
    if (wrong >= 0) {
      put(trouble, problem({ detail: `Line ${wrong + 1} is not a term and an alias.`, remediation: "Write both, with a comma between them." }, { compact: true }));
      return;
    }
    try {
      const stored = (await call("PUT", "/v1/lexicon", { body: { entries: pairs.map(([term, alias]) => ({ term, alias })) } })).data;
      put(note, `${count(stored.entries.length, "entry", "entries")} stored`);
    } catch (error) { put(trouble, problem(error, { compact: true })); }
  };
  return [h("h2", "Lexicon"), h("p.muted", "Other names of the same thing: a term and an alias on each line. A question about one finds messages about the other."), text, trouble,
    h("div.row.between", note, h("span.row", h("button.small", { type: "button", onclick: () => file.click() }, "Import CSV"), h("button.small.primary", { type: "button", onclick: save }, "Save"), file))];
}
