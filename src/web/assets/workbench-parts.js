// The form of the workbench: task, files, agents, model, history, ceilings; and the workspace with its rules.

import { call, get, query } from "./api.js";
import { h, number, put, settle } from "./dom.js";
import { failed, field, problem, showFieldErrors, toast, whileBusy } from "./parts.js";

const AGENTS = {
  shape: ["A2 Shaper", "states intent, role and form of the task"], files: ["A1 Files", "injects the chosen files"], memory: ["Memory", "reads the conversation"],
  retrieve: ["Retriever", "searches the sources that are on"], rerank: ["Reranker", "ranks the chunks again"], nli: ["A3 Entailment", "drops chunks that do not support the task"],
  condense: ["A4 Condenser", "condenses chunks to cited facts"], audit: ["A2 Audit", "refines the headers with the facts found"],
};

/** Rows drawn at first, and with each “Show more”; files that are read at a time, and in all, as many as a request can
 * turn off. */
const FILES_SHOWN = 50;
const FILES_READ = 500;
const MAX_FILES = 10000;

const numeric = (name, value, min, max, step = "1") => h("input", { type: "number", name, value, min, max, step, inputmode: "decimal" });

const part = (title, ...children) => h("fieldset.settings-group", h("legend", title), children);

/** The values of a form by the names of its inputs. */
export const filled = (form) => new Map([...form.querySelectorAll("[name]")].map((input) => [input.name, input.type === "checkbox" ? input.checked : input.value]));

/** Puts the values back, as far as the form still has their inputs and options. */
export function fill(form, values) {
  for (const input of form.querySelectorAll("[name]")) {
    const value = values.get(input.name);
    if (value === undefined) continue;
    if (input.type === "checkbox") input.checked = value;
    else input.value = value;
    if (input.selectedIndex === -1) input.selectedIndex = 0;
  }
}

/** `left`: what the form contained when it was left. */
export function controls({ workspace, models, sources, threads }, left, signal) {
  const task = h("textarea.question", { name: "task", rows: "4", required: true, "aria-label": "Task", placeholder: "What should the model do?" });
  task.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) task.form.requestSubmit();
  });
  const pool = left?.pool ?? { off: new Set(), injected: new Map(), sources: [] };
  pool.sources = sources.items;
  const form = h("form.workbench-form", { novalidate: true }, task,
    part("Prompt Shaper",
      field("Mode", h("input", { type: "text", name: "mode", maxlength: 500, autocomplete: "off", placeholder: "review, plan, draft…" }), { name: "mode", hint: "How to work on the task, in a few words. The shaper derives role, audience, tone and format." })),
    files(pool, sources.next_cursor, signal), agents(workspace.agents), modelPart(models), historyPart(workspace.settings, threads), limits(workspace));
  if (left) fill(form, left.values);
  return Object.assign(form, { pool });
}

/** A file is on or off, and may be injected whole or packed. */
function fileRow(source, pool) {
  const mode = h("select", { "aria-label": `Inject ${source.filename}`, "data-inject": source.id }, [["", "not injected"], ["full", "FULL"], ["pack", "PACK"]].map(([value, label]) => h("option", { value }, label)));
  mode.value = pool.injected.get(source.id) ?? "";
  mode.addEventListener("change", () => (mode.value ? pool.injected.set(source.id, mode.value) : pool.injected.delete(source.id)));
  const on = h("input", { type: "checkbox", checked: source.eligible && !pool.off.has(source.id), disabled: !source.eligible, "data-on": source.id });
  on.addEventListener("change", () => (on.checked ? pool.off.delete(source.id) : pool.off.add(source.id)));
  return h("li", h("label.check", on, h("span", { title: source.path }, source.filename, h("span.sr", " is on"))), mode);
}

/** The files, newest first, some at a time. `pool` has what was chosen, also of files without a row. */
function files(pool, cursor, signal) {
  const { sources } = pool;
  const search = h("input", { type: "search", placeholder: "Find a file", "aria-label": "Find a file", autocomplete: "off" });
  const total = h("p.hint", { role: "status" });
  const found = h("p.hint", { role: "status" });
  const list = h("ul.plain.file-list");
  let most = FILES_SHOWN;
  const fitting = () => {
    const wanted = search.value.trim().toLocaleLowerCase();
    return sources.filter((source) => `${source.filename} ${source.path}`.toLocaleLowerCase().includes(wanted));
  };
  const more = h("button.small", { type: "button", onclick: () => {
    const before = list.children.length;
    most += FILES_SHOWN;
    draw();
    list.children[before]?.querySelector("input, select").focus();
  } }, "Show more");
  const count = () => put(total, `${number(sources.length)} files${cursor ? (sources.length < MAX_FILES ? " so far" : ", the newest; others are found by their exact names") : ""}, ${number(pool.off.size)} off, ${number(pool.injected.size)} injected.`);
  function draw(isLater = false) {
    const fits = fitting();
    const shown = fits.slice(0, most);
    // What was read later comes last, so a full list stays as it is, with the focus in it.
    if (!isLater || list.children.length < shown.length) put(list, shown.map((source) => fileRow(source, pool)));
    more.hidden = shown.length === fits.length;
    put(found, search.value.trim() && fits.length === 0 ? "No file has this name." : more.hidden ? "" : `${number(shown.length)} of ${number(fits.length)} shown.`);
    count();
  }
  function add(items) {
    const known = new Set(sources.map((source) => source.id));
    sources.push(...items.filter((source) => !known.has(source.id)));
  }
  /** The other files. Once all are known, those that were deleted are chosen no more. */
  async function readAll() {
    while (cursor && sources.length < MAX_FILES) {
      const page = await get(query("/v1/sources", { newest_first: true, limit: FILES_READ, cursor }), { signal });
      cursor = page.next_cursor;
      add(page.items);
      draw(true);
    }
    if (cursor) return;
    const known = new Set(sources.map((source) => source.id));
    for (const chosen of [pool.off, pool.injected]) for (const id of [...chosen.keys()]) if (!known.has(id)) chosen.delete(id);
    count();
  }
  const reading = readAll().catch(failed);
  /** All files that fit the filter, also those that are not shown. */
  const turn = (on) => h("button.small", { type: "button", onclick: (event) => whileBusy(event.target, async () => {
    await reading;
    for (const { id } of fitting().filter((source) => source.eligible)) pool.off[on ? "delete" : "add"](id);
    draw();
    list.dispatchEvent(new Event("input", { bubbles: true }));
  }) }, on ? "Turn all on" : "Turn all off");
  /** Beyond the files that were read, the service finds one by its exact name. */
  const ask = settle(async () => {
    const filename = search.value.trim();
    if (!cursor || !filename) return;
    add((await get(query("/v1/sources", { filename, limit: 50 }), { signal }).catch(() => ({ items: [] }))).items);
    draw();
  }, 300);
  search.addEventListener("input", () => {
    most = FILES_SHOWN;
    draw();
    ask();
  });
  list.addEventListener("change", count);
  draw();
  return part("Files", h("p.hint", "A file that is off is not searched in this run. An injected file is part of the prompt: word for word (FULL) or as an outline (PACK)."),
    sources.length > 8 && search, sources.length ? [h("div.row.between", total, h("div.row", turn(true), turn(false))), list, h("div.row.between", found, more)] : h("p.muted", "No files yet: ingest some in the library."),
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
  const { off, injected, sources } = form.pool;
  const on = (name) => data.has(name);
  const value = (name) => Number(data.get(name));
  const body = {
    task: String(data.get("task")), lock: on("lock"), target: data.get("target"),
    files: sources.filter(({ id }) => injected.has(id)).map(({ id }) => ({ source_id: id, mode: injected.get(id) })),
    off_source_ids: [...off],
    agents: Object.fromEntries(Object.keys(AGENTS).map((name) => [name, on(`agent-${name}`)])),
    k: value("k"), episodic_tokens: value("episodic_tokens"), include_recent_history: on("include_recent_history"), theta: value("theta"), top_k: value("top_k"),
    ceilings: { tokens: value("tokens"), cost_usd: value("cost_usd") },
  };
  const thread = form.querySelector("[name=thread_id]");
  if (thread.value) body.thread_id = thread.value;
  // Sources of other end users must not reach the conversation of this one.
  if (thread.value && sources.some((source) => source.user_id !== "default")) body.user_id = thread.selectedOptions[0].dataset.user;
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
