// The query form: the question, the strategy, and every setting of the API in three groups.

import { h, number, words } from "./dom.js";
import { field } from "./parts.js";

/** The name of each strategy, everywhere on the page. */
export const STRATEGIES = {
  auto: ["Auto", "Searches first; a language model picks categories or walks the hierarchy only if the result is uncertain."],
  one_shot: ["One shot", "The best category on every level."],
  wide_branch: ["Wide branch", "The same number of categories on every level."],
  zoom_in: ["Zoom in", "Many at first, fewer on each level."],
  branch_out: ["Branch out", "Few at first, more on each level."],
};

export const strategyName = (name) => STRATEGIES[name]?.[0] ?? name;

/** The defaults of the form. */
export const choices = { strategy: "auto" };

function pick(name, chosen, options) {
  return h("select", { name }, options.map(([value, label]) => h("option", { value, selected: value === (chosen ?? "") }, label)));
}

function numeric(name, chosen, placeholder, step = "1") {
  return h("input", { type: "number", name, min: "0", step, value: chosen ?? "", placeholder: placeholder ? `${placeholder}` : "", inputmode: "decimal" });
}

/** The choices, and first the configured one by its name. */
const withDefault = (set, options) => [["", `As configured: ${(options.find(([value]) => value === set)?.[1] ?? set).toLowerCase()}`], ...options];

const settingsGroup = (title, help, ...fields) => h("fieldset.settings-group", h("legend", title), h("p.hint", help), h("div.settings-grid", fields));

export function settingsForm({ info, models, sources, start }) {
  const set = info.settings.query ?? {};
  choices.strategy = start.strategy ?? set.strategy ?? "auto";
  const question = h("textarea.question", { name: "query", rows: "2", required: true, "aria-label": "Your question", placeholder: "What would you like to know?", value: start.query ?? "" });
  question.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    question.form.requestSubmit();
  });
  return h("form.ask-form", { novalidate: true }, question, strategies(), settings(info, models, sources, start, set));
}

/** `auto`, and the other four behind "more". */
function strategies() {
  const card = ([value, [name, about]]) => h("label.strategy",
    h("input", { type: "radio", name: "strategy", value, checked: value === choices.strategy }),
    h("span.strategy-name", name), h("span.strategy-words", about), h("span.strategy-cost.muted", { "data-estimate": value }, "\u00a0"));
  const [first, ...others] = Object.entries(STRATEGIES).map(card);
  return h("fieldset.strategies", h("legend.sr", "Strategy"), first,
    h("details.more-strategies", { open: choices.strategy !== "auto" }, h("summary", "More strategies: walk the hierarchy from the top"), h("div.strategy-cards", others)));
}

/** A time as an input of the local time has it. */
const localTime = (text) => {
  const moment = new Date(text);
  return new Date(moment - moment.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
};

function settings(info, models, sources, start, set) {
  const from = start.budget_named === undefined ? {} : start;
  const modelNames = h("datalist", { id: "model-names" }, (models?.items ?? []).filter((item) => item.configured && item.model).map((item) => h("option", { value: `${item.name}:${item.model}` })));
  return h("details.more-settings", { open: Boolean(start.as_of) }, h("summary", "More settings"),
    settingsGroup("What to ask", "Which sources may be used, and what you get.",
      field("Result", pick("mode", start.mode, [["", "An answer"], ["retrieve", "Only the chunks"]]), { hint: "Without an answer, no call is needed to write one." }),
      field("Tags", h("input", { type: "text", name: "tags", value: (start.tags ?? []).join(", "), placeholder: "all sources", autocomplete: "off" }), { name: "tags", hint: "Sources that have all of these tags." }),
      sourcePicker(sources, start.source_ids ?? []),
      field("As of", h("input", { type: "datetime-local", name: "as_of", step: "1", value: start.as_of ? localTime(start.as_of) : "" }), { name: "as_of", hint: "Sources as they were at that time." }),
      field("Versions", pick("version_scope", start.version_scope === "all" ? "all" : "", [["", "Latest versions"], ["all", "All versions"]]), { hint: "Earlier versions can contradict the latest." })),
    settingsGroup("How far to look", "How many categories are chosen, and how many chunks are read.",
      field("Categories on level 1", numeric("n", "", "depends on strategy"), { name: "n", hint: "More categories, more calls." }),
      field("Change per level", numeric("n2", "", set.n2), { name: "n2", hint: "How many categories fewer (“Zoom in”) or more (“Branch out”) on each level." }),
      field("Maximum per level", numeric("per_level_max", "", set.per_level_max), { name: "per_level_max", hint: "For “Branch out”." }),
      field("Maximum chunks", numeric("limit", "", set.limit), { name: "limit", hint: "The best are kept." }),
      field("Maximum chunks per category", numeric("per_path_limit", "", set.per_path_limit || "no limit"), { name: "per_path_limit", hint: "Keeps one large category from crowding out the others." })),
    settingsGroup("Cost and budget", "Which model answers, how long its prompt may be, and when to stop.",
      field("Model", h("input", { type: "text", name: "model", list: "model-names", value: start.model ?? "", placeholder: info.llm.model, autocomplete: "off", spellcheck: "false" }), { name: "model", hint: "As provider:model." }),
      field("Budget in tokens", numeric("max_token_budget", from.budget_named ? start.max_token_budget : "", set.max_token_budget), { name: "max_token_budget", hint: "The longest prompt that is sent." }),
      field("If the budget is exceeded", pick("prompt_limiting_strategy", "", withDefault(set.prompt_limiting_strategy ?? "PRUNE", [["PRUNE", "Drop paths, worst rank first"], ["SUMMARIZE", "Shorten every chunk"]])), { hint: "Shortening needs more calls." }),
      field("If one path exceeds the budget", pick("overflow", "", withDefault(set.overflow ?? "trim", [["trim", "Keep the chunks that match best"], ["error", "Fail"]])), { hint: "Only if paths are dropped." }),
      field("Maximum calls", numeric("max_calls", start.max_calls, "no limit"), { name: "max_calls", hint: "A query that may need more is rejected." }),
      field("Maximum cost in dollars", numeric("max_cost_usd", start.max_cost_usd, "no limit", "any"), { name: "max_cost_usd", hint: "By the configured prices." })),
    modelNames);
}

/** The sources to query; none chosen means all. */
function sourcePicker(sources, chosen) {
  const names = new Map(sources.map((source) => [source.id, source.filename]));
  const chips = h("div.chips");
  const input = h("input", { type: "text", list: "source-names", placeholder: "all sources", autocomplete: "off" });
  const list = h("datalist", { id: "source-names" }, sources.slice(0, 1000).map((source) => h("option", { value: source.path }, source.filename)));
  const add = (id) => {
    const chip = h("span.chip", { "data-source-id": id }, names.get(id) ?? id,
      h("button.quiet", { type: "button", "aria-label": `Remove ${names.get(id) ?? id}`, onclick: () => { chip.remove(); input.dispatchEvent(new Event("change", { bubbles: true })); } }, "×"));
    chips.append(chip);
  };
  chosen.forEach(add);
  input.addEventListener("change", () => {
    const source = sources.find((other) => other.path === input.value || other.filename === input.value);
    if (!source) return;
    if (!chips.querySelector(`[data-source-id="${source.id}"]`)) add(source.id);
    input.value = "";
  });
  const box = field("Sources", input, { name: "source_ids", hint: `Choose from ${number(sources.length)} by path or name.` });
  box.append(list, chips);
  return box;
}

/** The request that the form describes; settings left at their default are omitted. */
export function readForm(form) {
  const data = new FormData(form);
  const body = { query: String(data.get("query")).trim(), strategy: data.get("strategy") };
  for (const name of ["mode", "prompt_limiting_strategy", "overflow", "version_scope", "model"]) {
    if (String(data.get(name)).trim()) body[name] = String(data.get(name)).trim();
  }
  for (const name of ["n", "n2", "per_level_max", "max_token_budget", "limit", "per_path_limit", "max_calls", "max_cost_usd"]) {
    if (data.get(name)) body[name] = Number(data.get(name));
  }
  if (words(data.get("tags")).length) body.tags = words(data.get("tags"));
  const sources = [...form.querySelectorAll("[data-source-id]")].map((chip) => chip.dataset.sourceId);
  if (sources.length) body.source_ids = sources;
  if (data.get("as_of")) body.as_of = new Date(data.get("as_of")).toISOString();
  return body;
}
