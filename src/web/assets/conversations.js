// The conversations: threads by user, what is known about a user, and the import of chat exports.

import { call, get, post, query } from "./api.js";
import { importPanel } from "./chat-import.js";
import { count, firstWords, h, number, put, settle, when } from "./dom.js";
import { confirm, dialog, failed, field, head, paged, problem, showFieldErrors, toast, toggle } from "./parts.js";

export const ofUser = (path, user) => query(path, { user_id: user });

export async function show(main, route, signal) {
  const isFacts = route.get("show") === "facts";
  const user = h("input", { type: "search", placeholder: isFacts ? "default" : "All users", "aria-label": "Only this user", autocomplete: "off", value: route.get("user") ?? "" });
  const tab = (name, title, part) => h("a", { href: query(`#/conversations`, { show: part, user: user.value.trim() }), "aria-current": isFacts === Boolean(part) ? "page" : null }, title);
  const tabs = h("nav.tabs", { "aria-label": "Parts of the conversations" });
  const place = h("div.conversations-main");
  const begin = h("button.primary", { type: "button", onclick: () => (isFacts ? factDialog(user.value.trim(), null, update) : threadDialog(user.value.trim())) }, isFacts ? "New fact" : "New thread");
  const chats = importPanel(() => user.value.trim(), update);
  put(main, head("Conversations", "Threads of your users, and what memoir keeps from them.", user, begin), tabs,
    h("div.conversations", place, h("aside.side", chats)));
  chats.takeFilesOf(main);

  function update() {
    put(tabs, tab("threads", "Threads", ""), tab("facts", "Facts and preferences", "facts"));
    (isFacts ? facts : threads)(place, user.value.trim(), signal);
  }
  user.addEventListener("input", settle(() => {
    history.replaceState(null, "", query("#/conversations", { show: isFacts ? "facts" : "", user: user.value.trim() }));
    update();
  }, 250));
  update();
}

function threads(place, user, signal) {
  const body = h("tbody");
  const pages = paged(body, (cursor) => get(query("/v1/threads", { user_id: user, sort: "-last_message_at", limit: 50, cursor }), { signal }), (thread) => h("tr", { "data-thread": thread.id },
    h("td.main-cell", h("a.name", { href: `#/conversations/${thread.id}` }, thread.title || "Untitled")),
    h("td", { "data-name": "User" }, thread.user_id),
    h("td.num", { "data-name": "Messages" }, number(thread.message_count)),
    h("td.num", { "data-name": "Turns" }, number(thread.turn_count)),
    h("td", { "data-name": "Last message" }, when(thread.last_message_at))),
  h("div.empty", h("p", user ? `${user} has no threads.` : "There are no threads yet. Applications store messages with POST /v1/threads; you can also start one here, or drop a chat export.")));
  put(place, h("div.table-box", h("table.list.threads", h("caption.sr", "Threads; the newest message first"),
    h("thead", h("tr", h("th", "Thread"), h("th", "User"), h("th.num", "Messages"), h("th.num", "Turns"), h("th", "Last message"))), body), pages.foot));
  return pages.start();
}

function threadDialog(user) {
  const title = h("input", { type: "text", autocomplete: "off", maxlength: 300 });
  const owner = h("input", { type: "text", value: user, placeholder: "default", autocomplete: "off" });
  const trouble = h("div");
  const form = h("form", { novalidate: true }, trouble, field("Title", title, { name: "title" }), field("User", owner, { name: "user_id", hint: "The end user who owns the thread." }),
    h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Start")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const thread = await post("/v1/threads", { title: title.value.trim() || null, user_id: owner.value.trim() || null });
      box.close();
      location.hash = `#/conversations/${thread.id}`;
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
    }
  });
  const box = dialog("New thread", form);
  title.focus();
}

/** Facts, preferences and summaries of one user; what was replaced stays visible below what replaced it. */
function facts(place, user, signal) {
  const owner = user || "default";
  const list = h("ol.plain.facts-list");
  const again = () => facts(place, user, signal);
  const known = new Map();
  const others = h("p");
  const pages = paged(list, async (cursor) => {
    const page = await get(query("/v1/memories", { user_id: owner, superseded: true, limit: 50, cursor }), { signal });
    for (const memory of page.items) known.set(memory.id, memory);
    return page;
  }, (memory) => factItem(memory, known, again), h("div.empty", h("p", `There are no facts about ${owner} yet. A model finds them in messages that are stored with “extract”; in a thread, “Find facts about the user” does that. You can also add one yourself.`), others));
  const limits = h("p.muted");
  put(place, h("p.muted", `What memoir knows about ${owner}. A new fact replaces an old one, which stays in the record.`), limits, list, pages.foot);
  get("/v1/info", { signal }).then((info) => put(limits, info.llm.embedded && "The embedded model finds plain statements only, such as “I live in Bonn” or “I am allergic to nuts”; a language model finds more."), failed);
  return pages.start().then(() => known.size === 0 && !user && listUsers(others, signal));
}

/** Applications usually name their users, and then the default one has no facts. */
async function listUsers(place, signal) {
  const { items } = await get("/v1/threads?sort=-last_message_at&limit=100", { signal }).catch(() => ({ items: [] }));
  const users = [...new Set(items.map((thread) => thread.user_id))].filter((name) => name !== "default");
  put(place, users.length > 0 && ["Users of the newest threads: ", users.map((name, index) => [index > 0 && ", ", h("a", { href: query("#/conversations", { show: "facts", user: name }) }, name)])]);
}

export function factItem(memory, known, again) {
  const gone = Boolean(memory.superseded_by);
  const replacer = known.get(memory.superseded_by);
  const replaced = known.get(memory.supersedes);
  const path = ofUser(`/v1/memories/${memory.id}`, memory.user_id);
  const words = firstWords(memory.title ?? memory.content, 60);
  const change = async (body, message) => {
    try {
      await call("PATCH", path, { body });
      if (message) toast(message);
      again();
    } catch (error) { failed(error); }
  };
  const remove = async () => {
    if (!await confirm("Delete this memory?", memory.content.slice(0, 300), "Delete permanently")) return;
    try {
      await call("DELETE", path);
      again();
    } catch (error) { failed(error); }
  };
  return h("li.fact-item", { class: gone ? "gone" : "", "data-memory": memory.id },
    h("p.fact-text", memory.title && h("strong", memory.title, " "), memory.content),
    h("p.chips-line", h("span.badge", memory.type), memory.important && h("span.badge.you", "important"), memory.pinned && h("span.badge.good", "pinned"),
      (memory.metadata.topics ?? []).map((topic) => h("span.tag", topic)), memory.tags.map((tag) => h("span.tag", tag)), h("span.muted", when(memory.created_at))),
    memory.evidence?.quote && h("blockquote.evidence", h("q", memory.evidence.quote)),
    // A restored fact is in use again, and this one no longer replaces it.
    replaced?.superseded_by && h("p.muted", "Replaces: ", h("del", replaced.content)),
    gone && h("p.muted", "Replaced", replacer && [" by: ", replacer.content], " ", when(memory.superseded_at)),
    h("div.row", !gone && h("label.inline", toggle(`Important: ${words}`, memory.important, async (on) => { await call("PATCH", path, { body: { important: on } }); again(); return on; }), h("span", { "aria-hidden": "true" }, "Important")),
      gone ? h("button.small", { type: "button", "aria-label": `Restore ${words}`, onclick: () => change({ restore: true }, replacer ? "Both facts are used now: delete the one that is not true." : "The fact is used again") }, "Restore")
        : memory.type !== "summary" && h("button.small", { type: "button", "aria-label": `Replace ${words}`, onclick: () => factDialog(memory.user_id, memory, again) }, "Replace"),
      h("button.small.danger", { type: "button", "aria-label": `Delete ${words}`, onclick: remove }, "Delete")));
}

/** A new fact, or one that replaces another. */
function factDialog(user, old, after) {
  const content = h("textarea", { rows: "3", value: old?.content ?? "" });
  const type = h("select", ["fact", "preference"].map((name) => h("option", { value: name, selected: name === old?.type }, name)));
  const trouble = h("div");
  const form = h("form", { novalidate: true }, trouble, field(old ? "What is true now" : "What is true", content, { name: "content" }), field("Type", type, { name: "type" }),
    h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, old ? "Replace" : "Add")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("/v1/memories", { user_id: user || null, content: content.value.trim(), type: type.value, supersedes: old?.id ?? null });
      box.close();
      toast(old ? "The fact is replaced." : "The fact is added.");
      after();
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
    }
  });
  const box = dialog(old ? "Replace a fact" : `New fact about ${user || "default"}`, form);
  content.focus();
}

export const messagesOf = (thread) => `${count(thread.message_count, "message")} in ${count(thread.turn_count, "turn")}`;
