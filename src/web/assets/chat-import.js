// Importing a chat export: JSON Lines or JSON of messages, exports of ChatGPT and Claude, and WhatsApp's text. The file is read in the
// browser; what it contains is shown first and stored when you say so. Messages with a time are stored once, so an
// import can be repeated.

import { get, post } from "./api.js";
import { count, h, number, put } from "./dom.js";
import { failed, field, problem, toast, whileBusy } from "./parts.js";

const AT_ONCE = 500;
const KNOWN = "memoir imports JSON Lines or JSON with role and content, exports of ChatGPT and Claude, and WhatsApp text. Unpack a ZIP file first.";
const ROLES = { user: "user", human: "user", assistant: "assistant", ai: "assistant", model: "assistant", bot: "assistant", system: "system" };

/** Conversations `{title, messages: [{role, content, created_at, name}]}` of a file. */
export function parseChat(text, filename) {
  const title = filename.replace(/\.[^.]+$/, "");
  const trimmed = text.trim();
  // WhatsApp on an iPhone begins with "[" too.
  if (/^[[{]/.test(trimmed) && !trimmed.split("\n", 5).some(head)) {
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

const unreadable = (detail) => Object.assign(new Error(), { detail, remediation: KNOWN });

/** One JSON value, or one for each line. */
function parseJson(text) {
  try { return JSON.parse(text); } catch { /* perhaps JSON Lines */ }
  return text.split("\n").filter((line) => line.trim()).map((line, index) => {
    try { return JSON.parse(line); } catch {
      // If the first line is not JSON, the file is of another kind.
      throw unreadable(index ? `Line ${index + 1} is not valid JSON.` : "The format of this file is not recognised.");
    }
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

// WhatsApp. The command line reads it in the same way (src/cli/chat/whatsapp.rs, times.rs): change both.

/** `[time] rest` of an iPhone, `time - rest` of Android; marks for the direction of writing can come before. */
const HEAD = /^[\u200e\u200f\ufeff]*(?:\[(\d[^\]]{0,39})\] |(\d.{0,39}?) - )\u200e*(.*)$/s;
const STAMP = /^(\d+)([./-])(\d+)\2(\d+)[, ]+(\d+):(\d+)(?::(\d+))?(.*)$/;

/** The time at the beginning of a line, its day and month not yet in order, and the rest; null if there is none. */
function head(line) {
  const found = line.match(HEAD);
  const stamp = found && (found[1] ?? found[2]).replace(/[\u200e\u200f]/g, "").replace(/\s/g, " ").match(STAMP);
  if (!stamp) return null;
  const [a, b, c, hour, minute, second = 0] = [1, 3, 4, 5, 6, 7].map((place) => stamp[place] && Number(stamp[place]));
  const after = stamp[8].toLowerCase();
  // Who writes "pm" or "p. m." begins dates with the day, so that only "PM" counts for the order.
  const half = after.replace(/[. ]/g, "").match(/[ap]m/)?.[0];
  const hours = half === "pm" && hour < 12 ? hour + 12 : half === "am" && hour === 12 ? 0 : hour;
  const begun = { date: [a, b, c], mark: stamp[2], clock: [hours, minute, second], half: /[AP]M/.test(stamp[8]), rest: found[3] };
  // Text such as "1.2.3 - notes" is no time, and must not decide the order.
  return timeOf(begun, false) || timeOf(begun, true) ? begun : null;
}

function calendar([a, b, c], monthFirst) {
  const [year, month, day] = a > 31 ? [a, b, c] : monthFirst ? [c, a, b] : [c, b, a];
  return [year < 100 ? 2000 + year : year, month, day];
}

/** The time in this zone, or null if there is no such day or hour. */
function timeOf({ date, clock }, monthFirst) {
  const [year, month, day] = calendar(date, monthFirst);
  const time = new Date(year, month - 1, day, ...clock);
  const exists = time.getMonth() === month - 1 && time.getDate() === day;
  return exists && clock[0] < 24 && clock[1] < 60 && clock[2] < 60 ? time : null;
}

/** Whether dates begin with the month: by numbers above 12, dots, AM and PM, and the order that does not go back in time. */
function beginsWithMonth(heads) {
  // A date that begins with the year says nothing about the others.
  const dates = heads.filter(({ date }) => date[0] <= 31);
  const certain = dates.find(({ date: [a, b] }) => a > 12 || b > 12);
  if (certain) return certain.date[0] <= 12;
  if (dates.some(({ mark }) => mark === ".")) return false;
  const usual = dates.some(({ mark }) => mark === "/") && heads.some(({ half }) => half);
  return goesBack(dates, usual) && !goesBack(dates, !usual) ? !usual : usual;
}

/** Whether a day is before the one above it; the time of day tells nothing about the order. */
function goesBack(dates, monthFirst) {
  const days = dates.map(({ date }) => calendar(date, monthFirst).reduce((sum, part) => sum * 100 + part));
  return days.some((day, index) => day < days[index - 1]);
}

/** A line without a time continues the message before it; a notice, which has no sender, is left out. */
function whatsApp(text) {
  const rows = text.split(/\r?\n/).map((line) => [line, head(line)]);
  const monthFirst = beginsWithMonth(rows.flatMap(([, begun]) => begun ?? []));
  const messages = [];
  let open = null;
  for (const [line, begun] of rows) {
    const at = begun && timeOf(begun, monthFirst);
    if (at) {
      const said = begun.rest.match(/^(.{0,100}?): (.*)$/su);
      open = said && { name: said[1].trim(), content: said[2], created_at: at.toISOString() };
      if (open) messages.push(open);
    } else if (open) open.content += `\n${line}`;
  }
  return messages.filter(({ content }) => content.trim());
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
      if (!chats.length) throw unreadable(`${file.name} contains no messages that memoir understands.`);
      put(out, offer(chats, user, () => {
        put(out);
        presetNote().then((note) => out.childElementCount === 0 && put(out, note), failed);
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

/** Where to choose a vocabulary that fits better, if the built-in one is in use. */
async function presetNote() {
  const { preset } = await get("/v1/vocabulary");
  return preset === "support" && h("p.muted", "Messages are classified with the vocabulary for customer support. If that does not fit them, ", h("a", { href: "#/vocabulary" }, "choose a preset"), ".");
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
