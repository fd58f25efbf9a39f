// The view of one thread: its messages as they are classified, and beside them the context for a question, the
// window and the summaries.

import { call, get, post, query } from "./api.js";
import { contextPanel } from "./context.js";
import { messagesOf, ofUser } from "./conversations.js";
import { h, put } from "./dom.js";
import { confirm, dialog, failed, field, head, problem, showFieldErrors, toast } from "./parts.js";
import { messageItem, summariesPanel, windowPanel } from "./thread-parts.js";

const PAGE = 50;
const POLL_MS = 1500;

export async function show(main, route, signal) {
  const back = () => h("p.back", h("a", { href: "#/conversations" }, "Conversations"));
  let thread;
  let info;
  try {
    [thread, info] = await Promise.all([get(`/v1/threads/${encodeURIComponent(route.id)}`, { signal }), get("/v1/info", { signal }).catch(() => ({ llm: {} }))]);
  } catch (error) {
    if (error.name !== "AbortError") put(main, back(), problem(error));
    return;
  }
  const user = thread.user_id;
  const top = h("div");
  const list = h("ol.messages", { "aria-label": "Messages" });
  const earlier = h("div.more");
  const note = h("p.sr", { role: "status" });
  /** id → {memory, item}, oldest first. */
  const shown = new Map();

  function heading() {
    const title = thread.title || "Untitled";
    document.title = `${title} · memoir`;
    put(top, head(title, [`${messagesOf(thread)}, user ${user} · `, h("a", { href: query("#/conversations", { show: "facts", user }) }, `Facts about ${user}`)],
      h("button", { type: "button", onclick: () => rename(thread, (now) => { thread = now; heading(); }) }, "Rename"),
      h("button.danger", { type: "button", onclick: () => remove(thread) }, "Delete")));
  }

  const item = (memory) => messageItem(memory, { user, changed: (now) => replace(now), removed: async () => {
    const gone = shown.get(memory.id)?.item;
    const neighbour = gone?.nextElementSibling ?? gone?.previousElementSibling;
    gone?.remove();
    shown.delete(memory.id);
    (neighbour ?? main.querySelector(".composer textarea"))?.focus();
    thread = await get(`/v1/threads/${thread.id}`, { signal }).catch(() => thread);
    heading();
  } });

  function replace(memory) {
    const entry = shown.get(memory.id);
    if (!entry) return;
    const next = item(memory);
    const had = entry.item.contains(document.activeElement) && document.activeElement.dataset.act;
    entry.item.replaceWith(next);
    shown.set(memory.id, { memory, item: next });
    if (had) next.querySelector(`[data-act="${had}"]`)?.focus();
    if (memory.enrichment_state === "pending") watch();
  }

  /** A page towards the past; the newest messages are shown first. */
  async function load(cursor) {
    const page = await get(query(`/v1/threads/${thread.id}/messages`, { user_id: user, newest_first: true, limit: PAGE, cursor }), { signal });
    const items = page.items.reverse().map((memory) => [memory, item(memory)]);
    const height = document.scrollingElement.scrollHeight;
    list.prepend(...items.map(([, element]) => element));
    const known = [...shown];
    shown.clear();
    for (const [memory, element] of items) shown.set(memory.id, { memory, item: element });
    for (const [id, entry] of known) shown.set(id, entry);
    // What is being read stays where it is.
    if (cursor) scrollBy(0, document.scrollingElement.scrollHeight - height);
    // A click of the keyboard has no detail; its focus may scroll to the first of the new messages.
    put(earlier, page.next_cursor && h("button", { type: "button", onclick: ({ detail }) => load(page.next_cursor).then((first) => first?.focus({ preventScroll: detail > 0 }), failed) }, "Show earlier messages"),
      shown.size === 0 && h("p.empty", "This thread has no messages yet."));
    watch();
    return items[0]?.[1];
  }

  let timer = 0;
  /** Asks again while a model classifies messages. */
  function watch() {
    clearTimeout(timer);
    if (signal.aborted || ![...shown.values()].some(({ memory }) => memory.enrichment_state === "pending")) return;
    timer = setTimeout(async () => {
      const page = await get(query(`/v1/threads/${thread.id}/messages`, { user_id: user, newest_first: true, limit: Math.min(500, Math.max(PAGE, shown.size)) }), { signal }).catch(() => null);
      for (const memory of page?.items ?? []) {
        const before = shown.get(memory.id)?.memory;
        if (before && before.enrichment_state !== memory.enrichment_state) {
          replace(memory);
          note.textContent = `Classified: ${memory.content.slice(0, 60)}`;
        }
      }
      watch();
    }, POLL_MS);
  }
  signal.addEventListener("abort", () => clearTimeout(timer));

  async function added(stored) {
    for (const memory of stored) {
      if (shown.has(memory.id)) continue;
      const element = item(memory);
      shown.set(memory.id, { memory, item: element });
      list.append(element);
    }
    earlier.querySelector(".empty")?.remove();
    thread = await get(`/v1/threads/${thread.id}`, { signal });
    heading();
    watch();
    panels.window.refresh();
  }

  const panels = { context: contextPanel({ user, thread: thread.id, signal }), window: windowPanel(thread, signal), summaries: summariesPanel(thread, signal, () => panels.window.refresh()) };
  heading();
  put(main, back(), top, h("div.thread", h("section.thread-main", { "aria-label": "Conversation" }, earlier, list, composer(thread, info, added), note), h("aside.side", panels.context, panels.window, panels.summaries)));
  try {
    await load();
    // A thread opens at its end, where it goes on.
    if (shown.size > 0) main.querySelector(".composer").scrollIntoView({ block: "end" });
    await Promise.all([panels.window.refresh(), panels.summaries.refresh()]);
  } catch (error) {
    if (error.name !== "AbortError") put(earlier, problem(error));
  }
}

/** The box at the end: what the user or the assistant says next. */
function composer(thread, info, added) {
  const text = h("textarea", { rows: "2", "aria-label": "Message", placeholder: "Write a message" });
  const role = h("select", { "aria-label": "Said by" }, ["user", "assistant"].map((name) => h("option", { value: name }, name)));
  // A language model is paid for it, so it is asked only on request.
  const extract = h("input", { type: "checkbox", checked: Boolean(info.llm.embedded) });
  const trouble = h("div");
  const note = h("p.muted", { role: "status" });
  const form = h("form.composer", { novalidate: true }, trouble, text, h("div.row.between", role, h("label.check", extract, h("span", "Find facts about the user")), h("button.primary", { type: "submit" }, "Add message")), note);
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!text.value.trim()) return;
    put(trouble);
    try {
      const stored = await post(ofUser(`/v1/threads/${thread.id}/messages`, thread.user_id), { role: role.value, content: text.value, extract: extract.checked });
      text.value = "";
      role.value = role.value === "user" ? "assistant" : "user";
      put(note, `Added. The next message is by the ${role.value}.`);
      await added(stored.items ?? [stored]);
    } catch (error) { put(trouble, problem(error, { compact: true })); }
  });
  return form;
}

function rename(thread, after) {
  const title = h("input", { type: "text", value: thread.title ?? "", autocomplete: "off", maxlength: 300 });
  const trouble = h("div");
  const form = h("form", { novalidate: true }, trouble, field("Title", title, { name: "title" }),
    h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Save")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      after((await call("PATCH", ofUser(`/v1/threads/${thread.id}`, thread.user_id), { body: { title: title.value.trim() || null } })).data);
      box.close();
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
    }
  });
  const box = dialog("Rename the thread", form);
  title.focus();
}

async function remove(thread) {
  if (!await confirm(`Delete ${thread.title || "this thread"}?`, `This permanently deletes its messages and the memories that belong to it (${messagesOf(thread)}).`, "Delete permanently")) return;
  try {
    await call("DELETE", ofUser(`/v1/threads/${thread.id}`, thread.user_id));
    toast("The thread was deleted");
    location.hash = "#/conversations";
  } catch (error) { failed(error); }
}
