// The parts of a thread: one message with what a model said about it, the window, and the summaries.

import { call, get, post, query } from "./api.js";
import { factItem, ofUser } from "./conversations.js";
import { correct } from "./correct.js";
import { firstWords, h, number, when } from "./dom.js";
import { confirm, failed, load, toast } from "./parts.js";

const STATES = { pending: ["being classified", "wait"], done: null, failed: ["not classified", "bad"], none: ["not classified", ""] };

/** What a model said about a message, or how far it is. */
function labels(memory) {
  const { topics = [], category, message_type: type, entities = [], confidence, suggested_topic: suggested } = memory.metadata;
  const state = STATES[memory.enrichment_state];
  return h("p.chips-line", state && h("span.badge", { class: state[1] }, state[0]),
    topics.map((topic) => h("span.tag.topic", { title: "Topic" }, topic)),
    category && h("span.tag", { title: "Category" }, category), type && h("span.tag", { title: "Type" }, type),
    entities.map((entity) => h("span.tag", { title: entity.type }, entity.value)),
    suggested && h("span.tag.reason", { title: "A topic that the vocabulary lacks" }, `suggests ${suggested}`),
    memory.tags.map((tag) => h("span.tag", { title: "Tag" }, `#${tag}`)),
    memory.corrected_fields.length > 0 && h("span.badge.you", { title: "It stays when the message is classified again" }, `corrected: ${memory.corrected_fields.join(", ").replace("_", " ")}`),
    memory.importance !== null && h("span.muted", `importance ${memory.importance.toFixed(2)}`), confidence && h("span.muted", `${confidence} confidence`));
}

export function messageItem(memory, { user, changed, removed }) {
  const path = ofUser(`/v1/memories/${memory.id}`, user);
  const patch = async (body) => {
    try { changed((await call("PATCH", path, { body })).data); } catch (error) { failed(error); }
  };
  const again = async () => {
    try {
      await post(ofUser(`/v1/memories/${memory.id}/enrich`, user));
      changed({ ...memory, enrichment_state: "pending" });
    } catch (error) { failed(error); }
  };
  const remove = async () => {
    if (!await confirm("Delete this message?", memory.content.slice(0, 300), "Delete permanently")) return;
    try {
      await call("DELETE", path);
      removed();
    } catch (error) { failed(error); }
  };
  const words = firstWords(memory.content, 60);
  return h("li.message", { class: `by-${memory.role}`, "data-message": memory.id, "data-state": memory.enrichment_state, tabindex: "-1" },
    h("div.message-head", h("strong", memory.name || memory.role), memory.name && h("span", memory.role), when(memory.created_at), memory.source === "external" && h("span.badge", "external"),
      h("span.muted", `turn ${number(memory.turn_index)}`), h("span.muted", memory.tier.replace("_", " ")), memory.access_count > 0 && h("span.muted", `used ${number(memory.access_count)}×`)),
    h("p.verbatim", memory.content), labels(memory),
    h("div.row.message-actions",
      h("button.small", { type: "button", "data-act": "star", "aria-pressed": String(memory.important), "aria-label": `Important: ${words}`, onclick: () => patch({ important: !memory.important }) }, memory.important ? "★ Important" : "☆ Important"),
      h("button.small.quiet", { type: "button", "data-act": "edit", "aria-label": `Correct ${words}`, onclick: () => correct(memory, user, changed).catch(failed) }, "Correct"),
      h("button.small.quiet", { type: "button", "data-act": "again", "aria-label": `Classify again: ${words}`, onclick: again }, "Classify again"),
      h("button.small.quiet.danger", { type: "button", "aria-label": `Delete ${words}`, onclick: remove }, "Delete")));
}

/** The last turns and the pinned summary, as an application gets them. */
export function windowPanel(thread, signal) {
  const turns = h("input", { type: "number", min: "1", max: "50", value: "4", "aria-label": "Turns of the window" });
  const out = h("div.window-out");
  const box = h("details.panel", { "aria-label": "Window" }, h("summary", "Window: the last turns"), h("div.row", h("span", "Last"), turns, h("span", "turns")), out);
  box.refresh = () => load(out, get(query(`/v1/threads/${thread.id}/window`, { user_id: thread.user_id, k: turns.value || 4 }), { signal }), (window_) => [
    window_.pinned_summary && h("blockquote.evidence", h("strong", window_.pinned_summary.title ?? "Summary"), h("p", window_.pinned_summary.content)),
    window_.turns.length === 0 ? h("p.empty", "No turns yet.") : h("ol.plain.window-turns", window_.turns.map((turn) => h("li",
      h("h4", `Turn ${turn.turn_index}`), turn.messages.map((message) => h("p", h("strong", `${message.name || message.role}: `), firstWords(message.content, 240))))))]);
  turns.addEventListener("change", box.refresh);
  return box;
}

/** Roll-ups of old turns; the pinned one is part of the window. */
export function summariesPanel(thread, signal, changed) {
  const out = h("div");
  const pin = h("input", { type: "checkbox", checked: true });
  const go = h("button", { type: "button" }, "Summarise old messages");
  const box = h("details.panel", { "aria-label": "Summaries" }, h("summary", "Summaries of old turns"), out,
    h("label.check", pin, h("span", "Pin the summary, so that every window begins with it")), go);
  box.refresh = () => load(out, get(query("/v1/memories", { user_id: thread.user_id, thread_id: thread.id, type: "summary" }), { signal }), ({ items }) => (
    items.length ? h("ol.plain.facts-list", items.map((memory) => factItem(memory, new Map(), () => { box.refresh(); changed(); }))) : h("p.muted", "None yet. The last four turns are never summarised.")));
  go.addEventListener("click", async () => {
    go.disabled = true;
    try {
      await post(ofUser(`/v1/threads/${thread.id}/summaries`, thread.user_id), { pinned: pin.checked });
      toast("The oldest turns are summarised");
      await box.refresh();
      changed();
    } catch (error) { failed(error); }
    go.disabled = false;
  });
  return box;
}
