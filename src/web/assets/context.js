// The context for a question: the text as an application gets it, each memory with its score in parts, and what was
// left out and why.

import { post } from "./api.js";
import { count, firstWords, h, milliseconds, number, put } from "./dom.js";
import { copyButton, facts, problem, say, whileBusy } from "./parts.js";

const REASONS = { duplicate: "it repeats another memory", unrelated: "it has nothing to do with the question", section_full: "its section is full", over_budget: "it did not fit the budget", replaced_by_expansion: "it made room for a preference or an important memory" };
const STAGES = { current_thread: "this thread", cross_thread: "another thread", expansion: "preferences and important memories" };
const AGES = { short_term: "less than a day old", mid_term: "up to 30 days old", long_term: "older than 30 days, or lasting" };
const PARTS = [["search", "search"], ["bonus", "what it shares with the question"], ["topic", "topic"], ["entity", "entities"], ["recency", "recency"], ["importance", "importance"]];

export function contextPanel({ user, thread, signal }) {
  const question = h("textarea", { rows: "2", "aria-label": "Question for the context", placeholder: "What does the user say next?" });
  const rank = h("select", { "aria-label": "How memories are found" }, h("option", { value: "auto" }, "by search, with what lasts"), h("option", { value: "search" }, "by search alone"), h("option", { value: "staged" }, "in stages"));
  const tokens = h("input", { type: "number", min: "1", value: "2000", "aria-label": "Maximum tokens" });
  const out = h("div.context-out");
  const go = h("button.primary", { type: "submit" }, "Assemble");
  const form = h("form", { novalidate: true }, question, h("div.row.context-row", rank, tokens, h("span.muted", "tokens"), go));
  const assemble = async () => {
    try {
      const answer = await post("/v1/context", { query: question.value.trim(), user_id: user, thread_id: thread, max_tokens: Number(tokens.value) || 2000, rank: rank.value }, { signal });
      put(out, contextView(answer));
      say(`The context has ${count(answer.memories.filter((memory) => memory.included).length, "memory", "memories")} and ${count(answer.token_count, "token")}.`);
    } catch (error) {
      if (error.name !== "AbortError") put(out, problem(error, { compact: true }));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (question.value.trim()) whileBusy(go, assemble);
    else question.focus();
  });
  return h("section.panel.context-panel", { "aria-label": "Context" }, h("h2", "Context for a question"), form, out);
}

export function contextView(answer) {
  const { intent, memories, left_out: left, context } = answer;
  const byId = new Map(memories.map((memory) => [memory.id, memory]));
  const understood = [...intent.topics, intent.category, ...intent.entities.map((entity) => entity.value)].filter(Boolean);
  return [
    h("pre.composed.verbatim", { tabindex: "0", role: "region", "aria-label": "The composed text" }, context || "No memory fits the question: the text is empty."),
    h("div.row.between", h("span.muted", `${number(answer.estimated_tokens)} of ${number(answer.max_tokens)} estimated tokens (${number(answer.token_count)} by the tokenizer)${answer.truncated ? ", cut off at the end" : ""} in ${milliseconds(answer.timings.total_ms)}`), copyButton(context)),
    facts(["Understood as", understood.length ? understood.map((word) => h("span.tag", word)) : "no term of the vocabulary"], ["Time", intent.time_scope.replace("_", " ")]),
    answer.found === false && h("p.notice", "Nothing that is stored has to do with the question."),
    answer.intent_fallback && h("p.notice", `No model analysed the question: ${answer.intent_fallback_reason ?? "none answered"}.`),
    memories.length > 0 && h("section", { "aria-label": "Memories found" }, h("h3", count(memories.length, "memory", "memories")), h("ol.plain.scored", memories.map(scored))),
    left.length > 0 && h("section", { "aria-label": "Left out" }, h("h3", "Left out"), h("ul.plain.left-out", left.map((item) => h("li",
      h("span", firstWords(byId.get(item.memory_id)?.content ?? item.memory_id, 90)), " ", h("span.tag.reason", REASONS[item.reason] ?? item.reason))))),
  ];
}

/** In a search alone, it gives up to 60 points; the other parts then count 0.4 times. */
const BESIDE_SEARCH = 0.4;

/** How the parts make the score, in words, and the points that each part adds. */
function composition(memory) {
  const { source_factor: source = 1, tier_factor: tier = 1, search, bonus } = memory.score_parts;
  const parts = PARTS.map(([name, label]) => ({ name, label, value: memory.score_parts[name] })).filter(({ value }) => value > 0);
  if (bonus !== null && bonus !== undefined) {
    return {
      words: parts.length ? `${parts.map(({ label, value }) => `${label} ${value.toFixed(0)}`).join(" + ")} = ${memory.score.toFixed(0)}` : "kept because it lasts",
      points: parts.map(({ name, value }) => [name, value]),
    };
  }
  const others = parts.filter(({ name }) => name !== "search");
  const share = search === null || search === undefined ? 1 : BESIDE_SEARCH;
  const factors = [[share, ""], [source, STAGES[memory.retrieval_source]], [tier, AGES[memory.tier]]].filter(([factor]) => factor !== 1);
  const sum = others.map(({ label, value }) => `${label} ${value.toFixed(0)}`).join(" + ");
  const product = `${factors.length && others.length > 1 ? `(${sum})` : sum}${factors.map(([factor, why]) => ` × ${factor.toFixed(1)}${why ? ` (${why})` : ""}`).join("")}`;
  const words = [share === 1 ? "" : `search ${search.toFixed(0)}`, sum && product].filter(Boolean).join(" + ");
  return {
    words: `${words} = ${memory.score.toFixed(0)}${memory.score >= 100 ? ", the maximum" : ""}`,
    points: parts.map(({ name, value }) => [name, name === "search" ? value : value * share * source * tier]),
  };
}

/** A memory with its score as a bar of parts. */
function scored(memory) {
  const { words, points } = composition(memory);
  const whole = Math.max(100, points.reduce((sum, [, value]) => sum + value, 0));
  return h("li", { class: memory.included ? "" : "unused", "data-memory": memory.id },
    h("div.scored-head", h("strong", memory.score.toFixed(0)), h("span.muted", STAGES[memory.retrieval_source] ?? memory.retrieval_source), memory.type !== "message" && h("span.badge", memory.type), !memory.included && h("span.tag.reason", "not in the text")),
    h("p", firstWords(memory.content, 220)),
    h("div.parts-bar", { role: "img", "aria-label": `Score: ${words}`, title: words }, points.map(([name, value]) => {
      const part = h("span", { class: `part-${name}` });
      part.style.setProperty("--share", String(value / whole));
      return part;
    })),
    h("p.muted.parts-words", words));
}
