// What the workbench composed: the Super-Prompt, which can be edited, its cost, why everything is in it, the streamed
// reply, and replies from other programs that are added to the history. Nothing here is stored by itself. It stays when
// another view is shown, so no request ends with the view.

import { call, download, get, post, query, stream } from "./api.js";
import { chunkLink } from "./ask-result.js";
import { count, dollars, firstWords, h, milliseconds, number, put, settle } from "./dom.js";
import { copyButton, facts, failed, problem, say, sentence, toast, whileBusy } from "./parts.js";

export const BLOCKS = { hard_rules: "Hard rules", project_memory: "Project memory", files: "Files", s_ctx: "Context", task: "Task" };

export function superPrompt(composed, request) {
  const { segments, elements } = editable(composed);
  const text = () => segments.map((segment) => (typeof segment === "string" ? segment : typed(segment))).join("");
  const model = request.model ?? composed.estimate.model;
  const cost = h("p.cost", { role: "status" });
  const sendButton = h("button.primary", { type: "button" }, "Send");
  const keep = h("input", { type: "checkbox", checked: true });
  const addressed = () => ({ prompt: text(), model, ceilings: request.ceilings });
  const reply = replyPart(sendButton, () => ({
    ...addressed(), ...(request.thread_id && keep.checked && { thread_id: request.thread_id, user_id: request.user_id, user_message: request.task }),
  }), composed, request);
  const showCost = (estimate) => {
    sendButton.disabled = !estimate.within_ceiling;
    put(cost, h("strong", count(estimate.tokens, "token")), `, at most ${dollars(estimate.cost_usd)} with ${estimate.model}`,
      !estimate.within_ceiling && h("span.bad-words", ` Over the ceiling of ${number(estimate.ceiling_tokens)} tokens and ${dollars(estimate.ceiling_cost_usd)}: shorten the prompt, or raise the ceiling.`));
  };
  showCost(composed.estimate);
  const again = settle(async () => {
    try {
      showCost(await post("/v1/prompts/estimate", addressed()));
    } catch (error) {
      put(cost, sentence(error.detail));
    }
  }, 300);
  for (const element of elements) element.addEventListener("input", again);
  return [
    h("section.super-prompt", { "aria-label": "Super-Prompt" }, h("div.row.between", h("h2", { tabindex: "-1" }, "Super-Prompt"), copyButton(text)),
      composed.blocks.map((block, index) => h("div.block", { class: `block-${block.name}` }, h("h3", BLOCKS[block.name] ?? block.name), elements[index])),
      h("div.row.between.send-row", cost, request.thread_id && h("label.check.keep", keep, h("span", "Add task and reply to the conversation")), sendButton)),
    reply, external(request), transparency(composed, request), shaper(composed), trace(composed),
  ];
}

/** The text of an editable element as it is seen: browsers write a line break as an element, some also as a line of its
 * own, and end the text with one that shows nothing. */
export function typed(element) {
  const nodes = [...element.childNodes];
  if (nodes.length > 1 && nodes.at(-1).nodeName === "BR") nodes.pop();
  return nodes.reduce((text, node) => {
    if (node.nodeType === Node.TEXT_NODE) return text + node.data;
    if (node.nodeName === "BR") return `${text}\n`;
    return text + (text && !text.endsWith("\n") ? "\n" : "") + typed(node);
  }, "");
}

/** The prompt as a list of fixed texts and editable blocks, which together are exactly the prompt. */
function editable({ prompt, blocks }) {
  const segments = [];
  const elements = [];
  let at = 0;
  for (const block of blocks) {
    const start = prompt.indexOf(block.text, prompt.indexOf(block.header, at) + block.header.length);
    const element = h("pre.block-text", { contenteditable: "plaintext-only", role: "textbox", "aria-multiline": "true", "aria-label": `${BLOCKS[block.name] ?? block.name}, editable`, spellcheck: "false", tabindex: "0", "data-block": block.name }, block.text);
    elements.push(element);
    segments.push(prompt.slice(at, start), element);
    at = start + block.text.length;
  }
  segments.push(prompt.slice(at));
  return { segments, elements };
}

/** A reply without the labels of facts (`F1:`), which only the prompt explains, and with its citations as links. */
function linked(reply, candidates) {
  const byId = new Map(candidates.map((item) => [item.chunk_id, item]));
  const text = reply.replace(/(^|[\s(])F\d{1,3}:\s+/g, "$1");
  return text.split(/(\bchunk \d+\b)/).map((part) => {
    const item = /^chunk \d+$/.test(part) && byId.get(Number(part.slice(6)));
    return item ? h("a.cite", { href: chunkLink({ ...item, source_version: item.version }), title: [item.filename, item.heading].filter(Boolean).join(" › ") }, part) : part;
  });
}

/** The reply as it is written, with its export. */
function replyPart(button, body, composed, request) {
  const words = h("p.answer-text");
  const meta = h("p.muted", { role: "status" });
  const stop = h("button.small", { type: "button", hidden: true }, "Cancel");
  const exports_ = h("div.row", { hidden: true }, ["markdown", "json"].map((format) => h("button.small", { type: "button", onclick: () => save(format) }, `Export as ${format === "json" ? "JSON" : "Markdown"}`)));
  const box = h("section.answer.reply", { "aria-label": "Reply", hidden: true }, h("h2.answer-title", { tabindex: "-1" }, "Reply"), words, meta, h("div.row", stop, exports_));
  const citations = composed.transparency.candidates.filter((item) => item.cited)
    .map(({ chunk_id, source_id, version, filename, path, heading }) => ({ chunk_id, source_id, version, filename, path, heading }));

  async function save(format) {
    try {
      await download("/v1/exports", { format, title: request.task.slice(0, 200), answer: words.textContent, citations }, `answer.${format === "json" ? "json" : "md"}`);
      toast("The reply is exported.");
    } catch (error) { failed(error); }
  }

  button.addEventListener("click", () => whileBusy(button, async () => {
    const run = crypto.randomUUID();
    const ending = new AbortController();
    stop.onclick = () => {
      post(`/v1/runs/${run}/cancel`).catch(() => { /* it was over */ });
      ending.abort();
    };
    box.hidden = false;
    exports_.hidden = true;
    stop.hidden = false;
    put(words);
    put(meta, "Sending…");
    try {
      const result = await stream("/v1/prompts/send", { ...body(), run_id: run, stream: true }, {
        started: () => put(meta, "Waiting for the model…"), reply: ({ text }) => words.append(text), reply_restarted: () => put(words),
      }, ending.signal);
      put(words, linked(result.reply, composed.transparency.candidates));
      const last = result.responses.at(-1);
      put(meta, [last && `${last.provider}:${last.model}`, last && count(last.tokens_completion, "token"), milliseconds(result.timings.total_ms), last && dollars(last.cost_usd)].filter(Boolean).join(" · "),
        result.truncated && " The reply may be cut off.", result.messages.length > 0 && " Added to the conversation.", result.warnings.map((warning) => h("span.notice", sentence(warning))));
      exports_.hidden = false;
      say("The reply is complete.");
      // Whoever went elsewhere meanwhile stays there.
      if (document.activeElement === button) box.querySelector("h2").focus({ preventScroll: true });
    } catch (error) {
      if (error.name === "AbortError") put(meta, "Cancelled.");
      else put(meta, problem(error));
    } finally {
      stop.hidden = true;
    }
  }));
  return box;
}

/** A reply from another program, added to the conversation. */
function external(request) {
  const text = h("textarea", { rows: "3", "aria-label": "Reply from another program", placeholder: "Paste a reply from another program" });
  const note = h("span.muted", { role: "status" }, request.thread_id ? "" : "It starts a new conversation.");
  const button = h("button", { type: "button" }, "Send to History");
  let thread = request.thread_id;
  const send = async () => {
    try {
      thread ??= (await post("/v1/threads", { title: request.task.slice(0, 80) })).id;
      const stored = await post(`/v1/threads/${thread}/messages`, { role: "assistant", content: text.value, source: "external" });
      put(note, stored.duplicate ? "Already stored in " : "Added to ", h("a", { href: `#/conversations/${thread}` }, "the conversation"), ".");
      text.value = "";
    } catch (error) { failed(error); }
  };
  button.addEventListener("click", () => (text.value.trim() ? whileBusy(button, send) : text.focus()));
  return h("section.panel.external", { "aria-label": "External reply" }, h("h2", "External reply"), text, h("div.row.between", note, button));
}

/** A message of the conversation or a fact about its user. The service names only the turn; the words are read. */
function historyItem(item, memories) {
  const words = h("span", `Turn ${item.turn_index}, ${item.role}`);
  const star = h("button.small.quiet", { type: "button", "aria-label": `Important: ${words.textContent}` });
  const mark = (on) => {
    put(star, on ? "★ Important" : "☆ Important");
    star.setAttribute("aria-pressed", String(on));
  };
  mark(item.reason.includes("marked important"));
  memories.then((known) => {
    const memory = known.get(item.memory_id);
    if (!memory) return;
    const text = firstWords(memory.content, 90);
    put(words, memory.type === "message" ? words.textContent : memory.type[0].toUpperCase() + memory.type.slice(1), ": ", h("q", text));
    star.setAttribute("aria-label", `Important: ${text}`);
    mark(memory.important);
  });
  star.addEventListener("click", () => whileBusy(star, async () => {
    const on = star.getAttribute("aria-pressed") !== "true";
    try {
      await call("PATCH", `/v1/memories/${item.memory_id}`, { body: { important: on } });
      mark(on);
      toast(on ? "It is used from the next prompt on" : "It is no longer important");
    } catch (error) { failed(error); }
  }));
  return h("li.candidate", { class: item.kept ? "kept" : "dropped" }, words,
    h("span.tag", { class: item.kept ? "topic" : "reason" }, item.reason), h("span.muted", { window: "recent", pinned: "summary" }[item.layer] ?? "older"), star);
}

/** What the history names, by id: one request has the messages, and facts are asked for one by one. */
async function memoriesOf(history, thread) {
  const page = await get(query(`/v1/threads/${thread}/messages`, { newest_first: true, limit: 500 })).catch(() => ({ items: [] }));
  const known = new Map(page.items.map((message) => [message.id, message]));
  const others = history.map((item) => item.memory_id).filter((id) => !known.has(id)).slice(0, 50);
  for (const memory of await Promise.all(others.map((id) => get(`/v1/memories/${id}`).catch(() => null)))) if (memory) known.set(memory.id, memory);
  return known;
}

/** What was kept and what was dropped, and why; gone after a reload. */
function transparency({ transparency: seen }, request) {
  const kept = seen.candidates.filter((item) => item.kept);
  const dropped = seen.candidates.filter((item) => !item.kept);
  const line = (item) => h("li.candidate", { class: item.kept ? "kept" : "dropped" },
    h("a", { href: chunkLink({ ...item, source_version: item.version }) }, h("span.number", `[${item.chunk_id}]`), " ", [item.filename, item.heading].filter(Boolean).join(" › ")),
    h("span.tag", { class: item.kept ? "topic" : "reason" }, item.reason), h("span.muted", `rank ${item.rank}`, item.semantic !== null && `, meaning ${item.semantic.toFixed(2)}`, item.nli_label && `, ${item.nli_label}`), item.cited && h("span.badge.good", "cited"));
  const memories = seen.history.length > 0 && memoriesOf(seen.history, request.thread_id);
  return h("section.transparency", { "aria-label": "Kept and dropped" }, h("h2", "Kept and dropped"),
    seen.candidates.length === 0 ? h("p.muted", request.lock ? "Nothing was searched." : request.user_id ? `No chunk was found. Only sources of ${request.user_id} were searched.` : "No chunk was found.") : [h("h3", `${number(kept.length)} kept`), h("ul.plain", kept.map(line)), h("h3", `${number(dropped.length)} dropped`), h("ul.plain", dropped.map(line))],
    seen.history.length > 0 && [h("h3", "Conversation"), h("ul.plain", seen.history.map((item) => historyItem(item, memories)))],
    seen.conflicts.length > 0 && [h("h3", "Conflicts"), h("ul.plain", seen.conflicts.map((item) => h("li.candidate", item.sides.map((side) => h("span", `${side.kind}: `, h("q", side.text))), h("span.tag.reason", `${item.winner} is used: ${item.reason}`))))],
    seen.notes.length > 0 && seen.notes.map((note) => h("p.notice", sentence(note))));
}

/** What the shaper made of the task, and what the audit changed or was not allowed to change. */
function shaper({ headers, audit }) {
  const pairs = Object.entries(headers).filter(([, value]) => (Array.isArray(value) ? value.length : value));
  if (!pairs.length) return null;
  return h("details.shaper", h("summary", "What the shaper says about the task"), facts(...pairs.map(([name, value]) => [name.replace("_", " "), Array.isArray(value) ? value.join(", ") : value])),
    audit.ran && h("p.muted", `The audit changed ${count(audit.changed.length, "header")} and was refused ${count(audit.rejected.length, "change")}.`));
}

function trace(composed) {
  return h("details.trace", h("summary", `${count(composed.trace.length, "stage")} in ${milliseconds(composed.timings.total_ms)}`), h("div.table-box", h("table.list", { "aria-label": "Stages" },
    h("thead", h("tr", h("th", "Stage"), h("th", "Status"), h("th", "Model"), h("th.num", "Calls"), h("th.num", "Time"), h("th", "Note"))),
    h("tbody", composed.trace.map((item) => h("tr", h("td.main-cell", item.agent, item.pass > 1 && h("span.muted", " again")),
      h("td", { "data-name": "Status" }, h("span.badge", { class: item.status === "ok" ? "good" : item.status === "fallback" ? "wait" : "" }, item.status)),
      h("td", { "data-name": "Model" }, item.model ?? "–"), h("td.num", { "data-name": "Calls" }, number(item.calls)), h("td.num", { "data-name": "Time" }, milliseconds(item.latency_ms)), h("td", { "data-name": "Note" }, item.note ?? "")))))));
}
