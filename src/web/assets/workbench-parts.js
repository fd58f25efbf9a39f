// The form of the workbench: task, files, agents, model, history, ceilings; and the workspace with its rules.

import { call, get, query } from "./api.js";
import { h, number, put, settle } from "./dom.js";
import { field, problem, showFieldErrors, toast } from "./parts.js";

const AGENTS = {
  shape: ["A2 Shaper", "states intent, role and form of the task"], files: ["A1 Files", "injects the chosen files"], memory: ["Memory", "reads the conversation"],
  retrieve: ["Retriever", "searches the sources that are on"], rerank: ["Reranker", "ranks the chunks again"], nli: ["A3 Entailment", "drops chunks that do not support the task"],
  condense: ["A4 Condenser", "condenses chunks to cited facts"], audit: ["A2 Audit", "refines the headers with the facts found"],
};

/** Rows drawn at first, and with each “Show more”. */
const FILES_SHOWN = 50;

const numeric = (name, value, min, max, step = "1") => h("input", { type: "number", name, value, min, max, step, inputmode: "decimal" });

const part = (title, ...children) => h("fieldset.settings-group", h("legend", title), children);

/** What identifies an input when the form is drawn anew. */
const inputName = ({ name, dataset: { on, inject } }) => name || (on ? `on ${on}` : `inject ${inject}`);
const inputs = (form) => form.querySelectorAll("[name], [data-on]:enabled, [data-inject]");

/** The values of a form by the names of its inputs. */
export const filled = (form) => new Map([...inputs(form)].map((input) => [inputName(input), input.type === "checkbox" ? input.checked : input.value]));

/** Puts the values back, as far as the form still has their inputs and options. */
export function fill(form, values) {
  for (const input of inputs(form)) {
    const value = values.get(inputName(input));
    if (value === undefined) continue;
    if (input.type === "checkbox") input.checked = value;
    else input.value = value;
    if (input.selectedIndex === -1) input.selectedIndex = 0;
  }
}

/** The ids of the files that were switched off or injected. */
export const chosenFiles = (values) => new Set([...values].map(([name, value]) => [...name.split(" "), value])
  .filter(([kind, , value]) => (kind === "on" && !value) || (kind === "inject" && value)).map(([, id]) => id));

/** `values`: what the form contained when it was left. */
export function controls({ workspace, models, sources, hasMore, threads }, values = new Map()) {
  const task = h("textarea.question", { name: "task", rows: "4", required: true, "aria-label": "Task", placeholder: "What should the model do?" });
  task.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) task.form.requestSubmit();
  });
  const form = h("form.workbench-form", { "data-owned": sources.some((source) => source.user_id !== "default"), novalidate: true }, task,
    part("Prompt Shaper",
      field("Mode", h("input", { type: "text", name: "mode", maxlength: 500, autocomplete: "off", placeholder: "review, plan, draft…" }), { name: "mode", hint: "How to work on the task, in a few words. The shaper derives role, audience, tone and format." })),
    files([...sources], hasMore, chosenFiles(values)), agents(workspace.agents), modelPart(models), historyPart(workspace.settings, threads), limits(workspace));
  fill(form, values);
  return form;
}

/** A file is on or off, and may be injected whole or packed. */
function fileRow(source) {
  const mode = h("select", { "aria-label": `Inject ${source.filename}`, "data-inject": source.id }, [["", "not injected"], ["full", "FULL"], ["pack", "PACK"]].map(([value, label]) => h("option", { value }, label)));
  const on = h("input", { type: "checkbox", checked: source.eligible, disabled: !source.eligible, "data-on": source.id });
  return h("li", h("label.check", on, h("span", { title: source.path }, source.filename, h("span.sr", " is on"))), mode);
}

/** The newest files, some at a time. A row stays in the form once it is drawn, so that a filter loses no choice. */
function files(sources, hasMore, chosen) {
  const search = h("input", { type: "search", placeholder: "Find a file", "aria-label": "Find a file", autocomplete: "off" });
  const found = h("p.hint", { role: "status" });
  const list = h("ul.plain.file-list");
  const rows = new Map(sources.filter((source) => chosen.has(source.id)).map((source) => [source.id, fileRow(source)]));
  let most = FILES_SHOWN;
  const more = h("button.small", { type: "button", onclick: () => {
    const before = list.querySelectorAll("li:not([hidden])").length;
    most += FILES_SHOWN;
    draw();
    list.querySelectorAll("li:not([hidden])")[before]?.querySelector("input, select").focus();
  } }, "Show more");
  function draw() {
    const wanted = search.value.trim().toLocaleLowerCase();
    const fits = sources.filter((source) => `${source.filename} ${source.path}`.toLocaleLowerCase().includes(wanted));
    const shown = fits.slice(0, most);
    for (const row of rows.values()) row.hidden = true;
    for (const source of shown) {
      if (!rows.has(source.id)) rows.set(source.id, fileRow(source));
      rows.get(source.id).hidden = false;
    }
    list.append(...shown.map((source) => rows.get(source.id)), ...[...rows.values()].filter((row) => row.hidden));
    more.hidden = shown.length === fits.length;
    put(found, wanted && fits.length === 0 ? "No file has this name." : more.hidden ? "" : `${number(shown.length)} of ${number(fits.length)} shown.`);
  }
  /** Beyond the newest files, the service finds one by its exact name. */
  const ask = settle(async () => {
    const filename = search.value.trim();
    if (!hasMore || !filename) return;
    const page = await get(query("/v1/sources", { filename, limit: 50 })).catch(() => ({ items: [] }));
    const known = new Set(sources.map((source) => source.id));
    sources.push(...page.items.filter((source) => !known.has(source.id)));
    draw();
  }, 300);
  search.addEventListener("input", () => {
    most = FILES_SHOWN;
    draw();
    ask();
  });
  draw();
  return part("Files", h("p.hint", `${number(sources.length)} files${hasMore ? ", the newest; others are found by their exact names" : ""}. A file that is off is not searched in this run. An injected file is part of the prompt: word for word (FULL) or as an outline (PACK).`),
    sources.length > 8 && search, sources.length ? [list, h("div.row.between", found, more)] : h("p.muted", "No files yet: ingest some in the library."),
    h("label.check", h("input", { type: "checkbox", name: "lock" }), h("span", "Exact file lock: use only the injected files, search nothing")));
}

function agents(on) {
  return part("Agents", h("div.agents", Object.entries(AGENTS).map(([name, [label, words]]) =>
    h("label.agent", h("input", { type: "checkbox", name: `agent-${name}`, checked: on[name] }), h("span", h("strong", label), h("span.hint", words))))));
}

function modelPart(models) {
  const names = models.items.filter((item) => item.configured && item.model).map((item) => `${item.name}:${item.model}`);
  return part("Model", h("div.pair",
    field("Model", h("select", { name: "model" }, h("option", { value: "" }, `as configured (${models.default})`), names.map((name) => h("option", { value: name }, name))), { name: "model" }),
    field("Compiled for", h("select", { name: "target" }, ["text", "openai", "anthropic", "gemini"].map((name) => h("option", { value: name }, name))), { name: "target", hint: "The form of the messages." })));
}

function historyPart(set, threads) {
  return part("History", h("div.pair",
    field("Conversation", h("select", { name: "thread_id" }, h("option", { value: "" }, "none"), threads.map((thread) => h("option", { value: thread.id, "data-user": thread.user_id }, `${thread.title || "Untitled"} (${thread.user_id})`))), { name: "thread_id" }),
    field("Turns", numeric("k", set.k, 1, 50), { name: "k", hint: "The last turns, which the prompt may show." }),
    field("Tokens of older turns", numeric("episodic_tokens", set.episodic_tokens, 0, 200000), { name: "episodic_tokens", hint: "Maximum tokens of older turns that matter." })),
  h("label.check", h("input", { type: "checkbox", name: "include_recent_history", checked: set.include_recent_history }), h("span", "Show recent history in the prompt")));
}

function limits({ settings, ceilings }) {
  return h("details.workbench-limits", h("summary", "Strictness and ceilings"), h("div.pair",
    field("Strictness θ", numeric("theta", settings.theta, 0, 1, "0.05"), { name: "theta", hint: "Minimum score of a chunk." }),
    field("Chunks to retrieve", numeric("top_k", settings.top_k, 1, 100), { name: "top_k" }),
    field("Ceiling in tokens", numeric("tokens", ceilings.tokens, 1, 10000000), { name: "tokens", hint: "A longer prompt cannot be sent." }),
    field("Ceiling in dollars", numeric("cost_usd", ceilings.cost_usd, 0, 1000000, "any"), { name: "cost_usd" })));
}

/** The request that the form describes. */
export function readControls(form) {
  const data = new FormData(form);
  const on = (name) => data.has(name);
  const value = (name) => Number(data.get(name));
  const body = {
    task: String(data.get("task")), lock: on("lock"), target: data.get("target"),
    files: [...form.querySelectorAll("[data-inject]")].filter((pick) => pick.value).map((pick) => ({ source_id: pick.dataset.inject, mode: pick.value })),
    off_source_ids: [...form.querySelectorAll("[data-on]")].filter((box) => !box.checked && !box.disabled).map((box) => box.dataset.on),
    agents: Object.fromEntries(Object.keys(AGENTS).map((name) => [name, on(`agent-${name}`)])),
    k: value("k"), episodic_tokens: value("episodic_tokens"), include_recent_history: on("include_recent_history"), theta: value("theta"), top_k: value("top_k"),
    ceilings: { tokens: value("tokens"), cost_usd: value("cost_usd") },
  };
  const thread = form.querySelector("[name=thread_id]");
  if (thread.value) body.thread_id = thread.value;
  // Sources of other end users must not reach the conversation of this one.
  if (thread.value && "owned" in form.dataset) body.user_id = thread.selectedOptions[0].dataset.user;
  for (const name of ["mode", "model"]) if (String(data.get(name)).trim()) body[name] = String(data.get(name)).trim();
  return body;
}

/** The first two blocks of every prompt. `save` stores what was typed, if it differs; false if that failed. */
export function workspacePanel(workspace) {
  const rules = h("textarea", { rows: "3", name: "hard_rules", value: workspace.hard_rules });
  const memory = h("textarea", { rows: "4", name: "project_memory", value: workspace.project_memory });
  const trouble = h("div");
  const version = h("span.muted", workspace.version ? `Version ${workspace.version}` : "Not saved yet");
  const form = h("form", { novalidate: true }, trouble, field("Hard rules", rules, { name: "hard_rules", hint: "The first block of every prompt. Saved when you compose." }),
    field("Project memory", memory, { name: "project_memory", hint: "The second block." }), h("div.row.between", version, h("button", { type: "submit" }, "Save the workspace")));
  const isSaved = () => rules.value === workspace.hard_rules && memory.value === workspace.project_memory;
  async function save() {
    if (isSaved()) return true;
    put(trouble);
    try {
      const { data } = await call("PUT", "/v1/workspace", { body: { ...workspace, hard_rules: rules.value, project_memory: memory.value } });
      Object.assign(workspace, data);
      put(version, `Version ${data.version}`);
      toast("The workspace is saved");
      return true;
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
      return false;
    }
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isSaved()) toast("Nothing has changed");
    else save();
  });
  return Object.assign(h("section.panel", { "aria-label": "Workspace" }, h("h2", "Workspace"), form), { save });
}
