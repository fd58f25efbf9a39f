// The context for a question: the text as an application gets it, each memory with its score in parts, and what was
// left out and why.

import { post } from "./api.js";
import { count, h, milliseconds, number, put } from "./dom.js";
import { copyButton, facts, problem } from "./parts.js";

const REASONS = { duplicate: "it repeats another memory", section_full: "its section is full", over_budget: "it did not fit the budget", replaced_by_expansion: "shown together with its neighbours" };
const STAGES = { current_thread: "this thread", cross_thread: "another thread", expansion: "always relevant" };
const PARTS = [["topic", "topic"], ["entity", "entities"], ["recency", "recency"], ["importance", "importance"], ["search", "search"]];

export function contextPanel({ user, thread, signal }) {
  const question = h("textarea", { rows: "2", "aria-label": "Question for the context", placeholder: "What does the user say next?" });
  const rank = h("select", { "aria-label": "How memories are found" }, h("option", { value: "staged" }, "in stages"), h("option", { value: "search" }, "by search"));
  const tokens = h("input", { type: "number", min: "1", value: "2000", "aria-label": "Maximum tokens" });
  const out = h("div.context-out", { "aria-live": "polite" });
  const go = h("button.primary", { type: "submit" }, "Assemble");
  const form = h("form", { novalidate: true }, question, h("div.row.context-row", rank, tokens, h("span.muted", "tokens"), go));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!question.value.trim()) return;
    go.disabled = true;
    try {
      put(out, contextView(await post("/v1/context", { query: question.value.trim(), user_id: user, thread_id: thread, max_tokens: Number(tokens.value) || 2000, rank: rank.value }, { signal })));
    } catch (error) {
      if (error.name !== "AbortError") put(out, problem(error, { compact: true }));
    }
    go.disabled = false;
  });
  return h("section.panel.context-panel", { "aria-label": "Context" }, h("h2", "Context for a question"), form, out);
}

export function contextView(answer) {
  const { intent, memories, left_out: left, context } = answer;
  const byId = new Map(memories.map((memory) => [memory.id, memory]));
  const understood = [...intent.topics, intent.category, ...intent.entities.map((entity) => entity.value)].filter(Boolean);
  return [
    h("pre.composed.verbatim", { tabindex: "0", role: "region", "aria-label": "The composed text" }, context || "No memory fits the question: the text is empty."),
    h("div.row.between", h("span.muted", `${count(answer.token_count, "token")} of ${number(answer.max_tokens)}${answer.truncated ? ", cut at its end" : ""} in ${milliseconds(answer.timings.total_ms)}`), copyButton(context)),
    facts(["Understood as", understood.length ? understood.map((word) => h("span.tag", word)) : "nothing special"], ["Time", intent.time_scope.replace("_", " ")]),
    answer.intent_fallback && h("p.notice", `No model analysed the question: ${answer.intent_fallback_reason ?? "none answered"}.`),
    memories.length > 0 && h("section", { "aria-label": "Memories found" }, h("h3", count(memories.length, "memory", "memories")), h("ol.plain.scored", memories.map(scored))),
    left.length > 0 && h("section", { "aria-label": "Left out" }, h("h3", "Left out"), h("ul.plain.left-out", left.map((item) => h("li",
      h("span", (byId.get(item.memory_id)?.content ?? item.memory_id).slice(0, 90)), " ", h("span.tag.reason", REASONS[item.reason] ?? item.reason))))),
  ];
}

/** A memory with its score as a bar of parts. */
function scored(memory) {
  const parts = PARTS.map(([name, label]) => [name, label, memory.score_parts[name]]).filter(([, , value]) => value > 0);
  const total = parts.reduce((sum, [, , value]) => sum + value, 0) || 1;
  const words = parts.map(([, label, value]) => `${label} ${value.toFixed(0)}`).join(", ");
  return h("li", { class: memory.included ? "" : "unused", "data-memory": memory.id },
    h("div.scored-head", h("strong", memory.score.toFixed(0)), h("span.muted", STAGES[memory.retrieval_source] ?? memory.retrieval_source), memory.type !== "message" && h("span.badge", memory.type), !memory.included && h("span.tag.reason", "not in the text")),
    h("p", memory.content.slice(0, 220)),
    h("div.parts-bar", { role: "img", "aria-label": `Score: ${words}`, title: words }, parts.map(([name, , value]) => {
      const part = h("span", { class: `part-${name}` });
      part.style.setProperty("--share", String((value / total) * Math.min(1, memory.score / 100)));
      return part;
    })),
    h("p.muted.parts-words", words));
}
