// Importing a chat export: JSON Lines or JSON of messages, exports of ChatGPT and Claude, and WhatsApp's text. The file is read in the
// browser; what it contains is shown first and stored when you say so. Messages with a time are stored once, so an
// import can be repeated.

import { post } from "./api.js";
import { count, h, number, put } from "./dom.js";
import { field, problem, toast, whileBusy } from "./parts.js";

const AT_ONCE = 500;
const ROLES = { user: "user", human: "user", assistant: "assistant", ai: "assistant", model: "assistant", bot: "assistant", system: "system" };

/** Conversations `{title, messages: [{role, content, created_at, name}]}` of a file. */
export function parseChat(text, filename) {
  const title = filename.replace(/\.[^.]+$/, "");
  const trimmed = text.trim();
  if (/^[[{]/.test(trimmed)) {
    const data = parseJson(trimmed);
    const list = Array.isArray(data) ? data : [data];
    const whole = list.flatMap((item) => {
      if (item?.mapping) return [chatGpt(item)];
      if (item?.chat_messages) return [{ title: item.name || title, messages: item.chat_messages.map((message) => plain({ ...message, role: message.sender, content: message.text || (message.content ?? []).map((part) => part.text ?? "").join("\n") })) }];
      if (Array.isArray(item?.messages)) return [{ title: item.title ?? item.name ?? title, messages: item.messages.map(plain) }];
      return [];
    });
    const found = whole.length ? whole : [{ title, messages: list.map(plain) }];
    return found.map((chat) => ({ ...chat, messages: chat.messages.filter(Boolean) })).filter((chat) => chat.messages.length);
  }
  const messages = whatsApp(trimmed);
  return messages.length ? [{ title, messages, people: [...new Set(messages.map((message) => message.name))] }] : [];
}

/** One JSON value, or one for each line. */
function parseJson(text) {
  try { return JSON.parse(text); } catch { /* perhaps JSON Lines */ }
  return text.split("\n").filter((line) => line.trim()).map((line, index) => {
    try { return JSON.parse(line); } catch { throw Object.assign(new Error(), { detail: `Line ${index + 1} is not valid JSON.`, remediation: "Check the file, or export it again." }); }
  });
}

function moment(value) {
  if (value === null || value === undefined || value === "") return undefined;
  const date = typeof value === "number" ? new Date(value < 1e12 ? value * 1000 : value) : new Date(value);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

function plain(message) {
  const role = ROLES[String(message?.role ?? message?.author ?? "user").toLowerCase()];
  const raw = message?.content ?? message?.text;
  const content = typeof raw === "string" ? raw : Array.isArray(raw) ? raw.map((part) => part.text ?? "").join("\n") : "";
  if (!role || !content.trim()) return null;
  return { role, content, created_at: moment(message.created_at ?? message.timestamp ?? message.create_time ?? message.time) };
}

/** ChatGPT keeps a tree of messages; the current branch leads from the last message to the root. */
function chatGpt(item) {
  const messages = [];
  for (let node = item.mapping[item.current_node]; node; node = item.mapping[node.parent]) {
    const { message } = node;
    const content = (message?.content?.parts ?? []).filter((part) => typeof part === "string").join("\n");
    if (message && ["user", "assistant"].includes(message.author?.role)) messages.unshift(plain({ role: message.author.role, content, created_at: message.create_time }));
  }
  return { title: item.title, messages };
}

const LINE = /^\u200e?\[?(\d{1,4})[./-](\d{1,2})[./-](\d{1,4}),?\s+(\d{1,2}):(\d{2})(?::(\d{2}))?\s*([AaPp])?\.?[Mm]?\.?\]?\s*(?:-\s*)?([^:]{1,60}):\s(.*)$/;

/** Lines such as `31/01/2026, 18:05 - Ana: text`; a line without a head continues the message before it. */
function whatsApp(text) {
  const rows = text.split(/\r?\n/).map((line) => [line, line.match(LINE)]);
  // Day or month first? A number above 12 tells.
  const monthFirst = rows.some(([, match]) => match && match[1].length <= 2 && Number(match[2]) > 12);
  const messages = [];
  for (const [line, match] of rows) {
    if (!match) {
      if (messages.length) messages.at(-1).content += `\n${line}`;
      continue;
    }
    const [, a, b, c, hour, minute, second = "0", half, name, content] = match;
    const [year, month, day] = a.length === 4 ? [a, b, c] : monthFirst ? [c, a, b] : [c, b, a];
    const hours = half ? (Number(hour) % 12) + (half.toLowerCase() === "p" ? 12 : 0) : Number(hour);
    messages.push({ role: "assistant", name, content, created_at: moment(new Date(Number(year) + (year.length === 2 ? 2000 : 0), month - 1, day, hours, minute, second).getTime()) });
  }
  return messages;
}

/** What is sent: the chosen person of a WhatsApp chat is the user, and everybody keeps their name. */
function toSend(chat, me) {
  if (!chat.people) return chat.messages;
  return chat.messages.map(({ name, content, created_at: at }) => ({
    role: name === me ? "user" : "assistant", name, content, created_at: at,
  }));
}

/** The panel that takes a file. `user()` names the owner, `after()` is called when messages were stored. */
export function importPanel(user, after) {
  const chosen = h("input.sr", { type: "file", accept: ".json,.jsonl,.ndjson,.txt", tabindex: "-1", "aria-hidden": "true" });
  const out = h("div.import-out");
  const read = async (file) => {
    if (!file) return;
    try {
      const chats = parseChat(await file.text(), file.name);
      if (!chats.length) throw Object.assign(new Error(), { detail: `${file.name} contains no messages that memoir understands.`, remediation: "Use JSON Lines with role and content, or an export of ChatGPT, Claude or WhatsApp." });
      put(out, offer(chats, user, () => {
        put(out);
        panel.querySelector("button").focus();
        after();
      }));
      out.querySelector("input, select").focus();
    } catch (error) {
      put(out, problem(error, { compact: true }));
    }
  };
  chosen.addEventListener("change", () => {
    read(chosen.files[0]);
    chosen.value = "";
  });
  const zone = h("div.drop.import-drop", h("p.drop-words", "Drop a chat export here"), h("p.muted", "JSON Lines, ChatGPT, Claude, WhatsApp"),
    h("div.row.centre", h("button", { type: "button", onclick: () => chosen.click() }, "Choose a file")), chosen);
  for (const kind of ["dragenter", "dragover"]) zone.addEventListener(kind, (event) => { event.preventDefault(); zone.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  });
  const panel = h("section.panel", { "aria-label": "Import a chat" }, h("h2", "Import a chat"), zone, out);
  /** A file that is dropped elsewhere in the view counts too. */
  panel.takeFilesOf = (view) => view.addEventListener("drop", (event) => {
    if (event.defaultPrevented || !event.dataTransfer.files.length) return;
    event.preventDefault();
    read(event.dataTransfer.files[0]);
    panel.scrollIntoView({ block: "nearest" });
  });
  return panel;
}

/** What the file contains, and the button that stores it. */
function offer(chats, user, done) {
  const total = chats.reduce((sum, chat) => sum + chat.messages.length, 0);
  const owner = h("input", { type: "text", value: user(), placeholder: "default", autocomplete: "off" });
  const people = chats[0].people;
  const me = people && h("select", people.map((name) => h("option", { value: name }, name)));
  const trouble = h("div");
  const progress = h("p.muted", { role: "status" }, "\u00a0");
  const go = h("button.primary", { type: "button" }, "Import");
  go.addEventListener("click", () => whileBusy(go, async () => {
    put(trouble);
    let sent = 0;
    try {
      for (const chat of chats) {
        const thread = await post("/v1/threads", { title: chat.title?.slice(0, 300) || null, user_id: owner.value.trim() || null });
        const messages = toSend(chat, me?.value);
        for (let at = 0; at < messages.length; at += AT_ONCE) {
          const some = messages.slice(at, at + AT_ONCE);
          await post(`/v1/threads/${thread.id}/messages`, { messages: some });
          sent += some.length;
          progress.textContent = `${number(sent)} of ${count(total, "message")} stored`;
        }
      }
      toast(`${count(sent, "message")} imported`);
      done();
    } catch (error) {
      put(trouble, problem(error, { compact: true }));
    }
  }));
  return h("div.import-offer",
    h("p", h("strong", `${count(chats.length, "conversation")}, ${count(total, "message")}`)),
    h("ul.plain.muted", chats.slice(0, 5).map((chat) => h("li", `${chat.title || "Untitled"}: ${count(chat.messages.length, "message")}`)), chats.length > 5 && h("li", `${number(chats.length - 5)} more`)),
    field("User", owner, { hint: "The end user whose conversations these are: a name or id from your application." }),
    me && field("Who in the chat is this user?", me, { hint: "The others’ messages are stored as replies. Everybody keeps their name." }),
    trouble, go, progress);
}
