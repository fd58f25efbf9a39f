// The chain of a policy as a row of steps: candidates go in on the left, the payload comes out on the right, and each
// step shows what it dropped or changed.

import { get, query } from "./api.js";
import { count, firstWords, h, milliseconds, number } from "./dom.js";

const REASONS = {
  below_min_score: "score too low", duplicate: "repeats another", beyond_top_k: "beyond the number allowed", moved: "moved", redacted: "redacted", redaction_too_slow: "redaction took too long", clipped: "shortened to its first sentences",
  cut_to_budget: "cut to the tokens left", beyond_budget: "no tokens were left",
};
const NAMES = { score_threshold: "Minimum score", deduplication: "Duplicates", interleaving: "Order", redaction: "Redaction", clipping: "Sentences", token_budget: "Budget" };
const SKIPPED = { use_memory_false: "Memory is off.", session_missing: "Choose a thread: without one, nothing is searched.", session_unknown: "The thread does not belong to this user." };

/** Items of a step that are shown at first. */
const SHOWN = 5;

/** What is known of the dropped memories; a payload contains only the kept ones. */
const texts = new Map();

async function learn(answer, user, signal) {
  for (const memory of answer.memories) texts.set(memory.id, memory.content);
  const unknown = [...new Set((answer.steps ?? []).flatMap((step) => step.effects.map((effect) => effect.id)))].filter((id) => !texts.has(id)).slice(0, 40);
  await Promise.all(unknown.map(async (id) => texts.set(id, await get(query(`/v1/memories/${id}`, { user_id: user }), { signal }).then((memory) => memory.content, () => "a memory"))));
}

const NUMBERS = { minScore: "minimum score", topK: "allowed", tokensLeft: "tokens left" };
const numbersOf = (numbers) => Object.entries(numbers ?? {}).filter(([, value]) => typeof value === "number").map(([name, value]) => `${NUMBERS[name] ?? name} ${Number.isInteger(value) ? value : value.toFixed(2)}`).join(", ");

/** The first few items; a button shows the others, so that a step stays short. */
function someOf(spec, items, line) {
  const list = h(spec, items.slice(0, SHOWN).map(line));
  if (items.length <= SHOWN) return list;
  const more = h("li", h("button.link", { type: "button", onclick: () => {
    const rest = items.slice(SHOWN).map(line);
    more.replaceWith(...rest);
    rest[0].setAttribute("tabindex", "-1");
    rest[0].focus();
  } }, `${number(items.length - SHOWN)} more`));
  list.append(more);
  return list;
}

function stepBox(step) {
  const dropped = step.effects.filter((effect) => effect.action === "dropped");
  const changed = step.effects.filter((effect) => effect.action !== "dropped");
  const line = (effect) => h("li", { class: effect.action }, h("span.chain-text", firstWords(texts.get(effect.id) ?? effect.id, 80)), h("span.tag", { class: effect.action === "dropped" ? "reason" : "" }, REASONS[effect.reason] ?? effect.reason.replaceAll("_", " ")), numbersOf(effect.numbers) && h("span.muted", numbersOf(effect.numbers)));
  return h("li.chain-step", { class: step.effects.length ? "acts" : "", "data-step": step.name },
    h("h3", NAMES[step.name] ?? step.name.replaceAll("_", " ")),
    h("p.muted", `${number(step.before)} → ${number(step.after)}`, dropped.length > 0 && `, ${number(dropped.length)} dropped`, changed.length > 0 && `, ${number(changed.length)} changed`),
    step.effects.length ? someOf("ul.plain.effects", step.effects, line) : h("p.muted", "passed unchanged"));
}

/** `retrieval@2` as the lists of the view call it. */
const versionName = (policy) => policy.replace(/^retrieval@0$/, "As first published").replace(/^retrieval@1$/, "Built-in defaults").replace(/^retrieval@/, "Version ");

export async function chain(answer, user, signal) {
  await learn(answer, user, signal);
  const { metadata } = answer;
  return h("section.chain-box", { "aria-label": `Steps of ${answer.policy}` }, h("h2", versionName(answer.policy), " ", h("span.muted", answer.cached ? "from the cache" : milliseconds(answer.timings?.totalMs))),
    answer.skipped && h("p.notice", SKIPPED[answer.skipped] ?? answer.skipped),
    answer.error && h("p.notice", answer.error.message),
    h("div.chain-scroll", { tabindex: "0", role: "region", "aria-label": "The steps in order" }, h("ol.chain",
      h("li.chain-step.chain-end", h("h3", "Found"), h("p.chain-count", number(metadata.totalResults)), h("p.muted", `by ${metadata.config.searchType} search`)),
      (answer.steps ?? []).map(stepBox),
      h("li.chain-step.chain-end.payload", h("h3", "Payload"), h("p.chain-count", number(metadata.includedResults)), h("p.muted", count(metadata.totalTokens, "token")),
        someOf("ol.plain.effects", answer.memories, (memory) => h("li", h("span.chain-text", firstWords(memory.content, 120)), h("span.muted", `score ${memory.score.toFixed(2)}${memory.provenance.wasRedacted ? ", redacted" : ""}`)))))),
    h("details", h("summary", "The text for the system prompt"), h("pre.composed.verbatim", { tabindex: "0", role: "region", "aria-label": "The text for the system prompt" }, answer.systemPrompt || "Empty: no memories.")));
}
