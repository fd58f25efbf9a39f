// The status view: health, version, models, settings and spending.

import { access, all, get, post, setAccess } from "./api.js";
import { startAnew } from "./app.js";
import { dollars, h, milliseconds, number, put, s } from "./dom.js";
import { facts, head, load, localModels, problem, sentence } from "./parts.js";

const DAYS = 30;

export async function show(main, route, signal) {
  const service = h("section.panel.room-s", { "aria-label": "Service" });
  const models = h("section.panel.room-m", { "aria-label": "Models" });
  const spend = h("section.panel.room-l", { "aria-label": "Spending" });
  const settings = h("section.panel", { "aria-label": "Settings" });
  const spaces = h("section.panel", { "aria-label": "Spaces", hidden: true });
  put(main, head("Status", null, h("a.button", { href: "docs" }, "API reference"), h("a.button", { href: "openapi.json" }, "OpenAPI document")),
    h("div.status", h("div", service, models), h("div", spend, spaces, settings)));
  const info = get("/v1/info", { signal });
  const ready = get("/health/ready", { signal }).then(() => null, (error) => {
    if (error.name === "AbortError") throw error;
    return error;
  });
  await Promise.all([
    load(service, Promise.all([info, ready]), ([about, trouble]) => [
      h("h2", "Service"),
      h("p.health", { class: trouble ? "bad-words" : "good-words" }, trouble ? sentence(trouble.detail) : "Ready"),
      trouble && problem(trouble, { compact: true }),
      facts(["Version", about.version], ["Database", `${about.database.engine}, schema ${about.database.schema_version}`],
        ["Keys", about.auth.required ? "required" : "not required on this machine"],
        ["Maximum request size", `${number(Math.round(about.limits.max_body_bytes / 1048576))} MiB`])]),
    load(models, Promise.all([get("/v1/models", { signal }), info]), ([answer, about]) => modelList(answer, about)),
    // Only administrators may list spaces; for others the panel stays hidden.
    get("/v1/admin/spaces?limit=500", { signal }).then((page) => {
      spaces.hidden = false;
      put(spaces, spaceList(page));
    }, () => { /* not an administrator */ }),
    load(spend, all("/v1/usage"), usage),
    load(settings, info, (about) => h("details", h("summary", "Current settings"),
      h("pre.verbatim.settings", { tabindex: "0", role: "region", "aria-label": "Settings" }, JSON.stringify(about.settings, null, 2)))),
  ]);
}

function goTo(space) {
  setAccess(space, access.key);
  // The button is drawn anew; the one at the top says where this is.
  document.getElementById("place").focus();
  startAnew();
}

function spaceList({ items, next_cursor: more }) {
  const current = access.space || "default";
  return [h("h2", "Spaces"), h("p.muted", "Every space is a library of its own. Choose one to switch to it; the button at the top shows where you are."),
    items.length === 0 ? h("p.empty", "No space contains data yet.") : h("ul.plain.spaces", items.map(({ space }) =>
      h("li", space === current ? [h("code", space), h("span.badge.good", "shown now")] : h("button.link", { type: "button", "aria-label": `Switch to ${space}`, onclick: () => goTo(space) }, h("code", space))))),
    more && h("p.muted", `The first ${number(items.length)}.`)];
}

function modelList(answer, about) {
  const stages = Object.entries(answer.stages).filter(([, model]) => model !== answer.default);
  const configured = answer.items.filter((item) => item.configured);
  const others = answer.items.filter((item) => !item.configured);
  return [h("h2", "Models"),
    facts(["Default", h("code", answer.default)], ["Fallback", answer.fallback ? h("code", answer.fallback) : "none"],
      ...stages.map(([stage, model]) => [stage, h("code", model)])),
    localModels(about),
    h("ul.plain.providers", configured.map(provider)),
    others.length > 0 && h("details.unconfigured", h("summary", `${number(others.length)} more can be configured: ${others.map((item) => item.name).join(", ")}`),
      h("ul.plain", others.map((item) => h("li", h("strong", item.name), " ", howTo(item)))))];
}

/** The providers with a key of their own, which memoir reads from the usual variable. */
const WITH_KEY = ["openai", "anthropic", "gemini", "xai", "mistral", "groq"];

/** What a provider needs before it can be used. */
function howTo(item) {
  const name = item.name.toUpperCase();
  if (!WITH_KEY.includes(item.name)) return ["Set ", h("code", `MEMOIR__LLM__PROVIDERS__${name}__BASE_URL`), " to its address, and restart memoir."];
  return ["Set ", h("code", `${name}_API_KEY`), " to its API key and restart memoir", item.model ? [", then use ", h("code", `${item.name}:${item.model}`), "."] : "."];
}

/** The button that tests a provider, and its outcome. Without a model there is nothing to test, only how to name one. */
function test(item) {
  if (!item.model) return h("p.probe-out.muted", "No model is known. Name one: ", h("code", `MEMOIR__LLM__MODEL=${item.name}:MODEL`), " for everything, or ", h("code", `${item.name}:MODEL`), " as the model of a question.");
  const out = h("p.probe-out.muted", { role: "status" }, "\u00a0");
  const button = h("button.small", { type: "button", "aria-label": `Test ${item.name}` }, "Test");
  button.addEventListener("click", async () => {
    button.disabled = true;
    put(out, "Testing…");
    try {
      const probe = await post("/v1/models/probe", { model: `${item.name}:${item.model}` });
      out.className = probe.ok ? "probe-out good-words" : "probe-out bad-words";
      put(out, probe.ok ? `Answered in ${milliseconds(probe.latency_ms)}, ${dollars(probe.cost_usd)}` : `${sentence(probe.error.detail)} ${probe.error.remediation}`);
    } catch (error) {
      put(out, problem(error, { compact: true }));
    }
    button.disabled = false;
  });
  return [button, out];
}

function provider(item) {
  return h("li.provider", h("div", h("strong", item.name), " ", h("span.muted", item.model ?? ""), item.resting && h("span.badge.bad", "avoided after failures"),
    item.pauses.map((pause) => h("p.bad-words", `Paused: ${sentence(pause.detail)} ${pause.remediation}`))), test(item));
}

function usage({ items, totals }) {
  const measures = { calls: ["Calls", number], tokens: ["Tokens", number], cost_usd: ["Cost", dollars] };
  const value = (item, name) => (name === "tokens" ? item.tokens_prompt + item.tokens_completion : item[name]);
  const chart = h("div.chart");
  const pick = h("select", { "aria-label": "What the chart shows" }, Object.entries(measures).map(([name, [label]]) => h("option", { value: name }, label)));
  const draw = () => put(chart, bars(items, (item) => value(item, pick.value), measures[pick.value][1], measures[pick.value][0]));
  pick.addEventListener("change", draw);
  draw();
  const groups = new Map();
  for (const item of items) {
    const name = `${item.provider}:${item.model}`;
    const sum = groups.get(name) ?? { name, calls: 0, tokens_prompt: 0, tokens_completion: 0, cost_usd: 0, last: item.day };
    for (const field of ["calls", "tokens_prompt", "tokens_completion", "cost_usd"]) sum[field] += item[field];
    groups.set(name, sum);
  }
  return [h("div.row.between", h("h2", `Spending, last ${DAYS} days`), pick), chart,
    facts(["Calls", number(totals.calls)], ["Tokens in", number(totals.tokens_prompt)], ["Tokens out", number(totals.tokens_completion)], ["Cost", dollars(totals.cost_usd)]),
    items.length === 0 ? h("p.empty", "No model has been called yet.") : h("div.table-box", h("table.list", { "aria-label": "Spending by model" },
      h("thead", h("tr", h("th", "Model"), h("th.num", "Calls"), h("th.num", "Tokens in"), h("th.num", "Out"), h("th.num", "Cost"), h("th.num", "Last day"))),
      h("tbody", [...groups.values()].map((sum) => h("tr", h("td.main-cell", sum.name), h("td.num", { "data-name": "Calls" }, number(sum.calls)),
        h("td.num", { "data-name": "Tokens in" }, number(sum.tokens_prompt)), h("td.num", { "data-name": "Tokens out" }, number(sum.tokens_completion)),
        h("td.num", { "data-name": "Cost" }, dollars(sum.cost_usd)), h("td.num", { "data-name": "Last day" }, sum.last))))))];
}

/** One bar for each of the last `DAYS` days. */
function bars(items, measure, form, label) {
  const byDay = new Map();
  for (const item of items) byDay.set(item.day, (byDay.get(item.day) ?? 0) + measure(item));
  const days = Array.from({ length: DAYS }, (_, index) => new Date(Date.now() - (DAYS - 1 - index) * 86400000).toISOString().slice(0, 10));
  const most = Math.max(...days.map((day) => byDay.get(day) ?? 0));
  const words = `${label} per day. Maximum: ${form(most)}.`;
  return [s("svg", { viewBox: "0 0 600 120", role: "img", "aria-label": words, preserveAspectRatio: "none" }, days.map((day, index) => {
    const sum = byDay.get(day) ?? 0;
    const height = most > 0 && sum > 0 ? Math.max(3, (sum / most) * 112) : 1;
    return s("rect", { x: index * 20 + 2, y: 118 - height, width: 16, height, rx: 1.5, class: sum > 0 ? "" : "none" }, s("title", {}, `${day}: ${form(sum)}`));
  })), h("div.chart-foot.muted", h("span", days[0]), h("span", `maximum: ${form(most)}`), h("span", days.at(-1)))];
}
