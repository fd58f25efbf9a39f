// The dialogue that corrects how a message was classified: terms of the vocabulary, tags and importance.

import { call, get, post } from "./api.js";
import { ofUser } from "./conversations.js";
import { h, put, words } from "./dom.js";
import { dialog, field, problem, showFieldErrors, toast } from "./parts.js";

const MAX_TOPICS = 3;

/** The chosen topics, each with a button that removes it, and a list of the others. */
function topicEditor(chosen, all) {
  const chips = h("p.chosen-topics");
  const more = h("select", { name: "topics" });
  // A list changes with every arrow key, so it adds nothing by itself.
  const add = h("button.small", { type: "button", onclick: () => {
    if (!more.value) { more.focus(); return; }
    chosen.push(more.value);
    draw();
    // A disabled list cannot keep the focus.
    (more.disabled ? chips.querySelector("button") : more).focus();
  } }, "Add");
  const draw = () => {
    put(chips, chosen.map((topic) => h("span.chip", topic, h("button.quiet", { type: "button", "aria-label": `Remove the topic ${topic}`, onclick: () => {
      chosen.splice(chosen.indexOf(topic), 1);
      draw();
      more.focus();
    } }, "×"))), chosen.length === 0 && h("span.muted", "No topic"));
    put(more, h("option", { value: "" }, chosen.length < MAX_TOPICS ? "Choose a topic" : "Three topics at most"), all.filter((topic) => !chosen.includes(topic)).map((topic) => h("option", { value: topic }, topic)));
    more.disabled = add.disabled = chosen.length >= MAX_TOPICS;
  };
  draw();
  const box = field("Topics", more, { name: "topics", hint: "From the vocabulary, three at most." });
  box.insertBefore(chips, more);
  more.after(add);
  return box;
}

/** A list of terms. One that the vocabulary no longer has is offered as well, because it may stay. */
const choice = (now, all) => h("select", [...new Set([now ?? "", ...all])].map((term) => h("option", { value: term, selected: term === (now ?? "") }, term || "–")));

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export async function correct(memory, user, changed) {
  const path = ofUser(`/v1/memories/${memory.id}`, user);
  const vocabulary = await get("/v1/vocabulary");
  const { topics = [], category, message_type: type } = memory.metadata;
  const chosen = [...topics];
  const categories = choice(category, vocabulary.categories);
  const types = choice(type, vocabulary.message_types);
  const tags = h("input", { type: "text", value: memory.tags.join(", "), autocomplete: "off" });
  const own = memory.metadata.importance ?? null;
  const importance = h("input", { type: "number", min: "0", max: "1", step: "0.05", value: own ?? "" });
  // A mark and how often a message is used count as well.
  const effective = memory.importance === null || memory.importance === own ? "" : ` ${memory.importance.toFixed(2)} is in use${memory.important ? ", because the message is marked as important" : ""}.`;
  const trouble = h("div");
  const reset = memory.corrected_fields.length > 0 && h("button", { type: "button" }, "Remove the corrections");
  const form = h("form", { novalidate: true }, trouble,
    h("p.muted", "What you change here stays when the message is classified again."),
    topicEditor(chosen, vocabulary.topics),
    h("div.pair", field("Category", categories, { name: "category" }), field("Type", types, { name: "message_type" })),
    h("div.pair", field("Tags", tags, { name: "tags", hint: "Separated by commas; used in addition to the topics." }), field("Importance", importance, { name: "importance", hint: `From 0 to 1.${effective}` })),
    h("div.row.between", h("span", reset), h("span.row", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Save"))));
  const send = async (action, words) => {
    put(trouble);
    try {
      const now = await action();
      box.close();
      changed(now);
      toast(words);
    } catch (error) {
      if (showFieldErrors(form, error.errors).length || !error.errors?.length) put(trouble, problem(error, { compact: true }));
    }
  };
  /** Only what was changed, so that the rest stays the model's. */
  const changes = () => {
    const weight = importance.value === "" ? null : Number(importance.value);
    return Object.fromEntries([["topics", chosen, topics], ["category", categories.value, category ?? ""], ["message_type", types.value, type ?? ""], ["tags", words(tags.value), memory.tags], ["importance", weight, own]]
      .filter(([, now, before]) => !same(now, before)).map(([name, now]) => [name, now]));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(async () => (await call("PATCH", path, { body: changes() })).data, "The correction is saved.");
  });
  if (reset) reset.addEventListener("click", () => send(async () => {
    const { data } = await call("PATCH", path, { body: Object.fromEntries(memory.corrected_fields.map((name) => [name, null])) });
    await post(ofUser(`/v1/memories/${memory.id}/enrich`, user));
    return { ...data, enrichment_state: "pending" };
  }, "The corrections are removed."));
  const box = dialog("Correct a message", form);
  form.querySelector("select:not(:disabled), .chip button").focus();
}
