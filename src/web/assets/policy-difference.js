// What differs between two versions of a policy: their settings, and the memories that each lets through.

import { firstWords, h } from "./dom.js";

const NAMES = {
  topK: "Memories", clipSentences: "Sentences per memory", maxTokens: "Tokens in total", minScore: "Minimum score", searchType: "Search", strategy: "Order",
  ratio: "Share of the first criterion", at: "Redaction on", enableRedaction: "Redact", customRedactionPatterns: "Your own patterns", builtIn: "Built-in patterns", replacement: "Replacement",
};

const settingsOf = ({ retrieval, interleaving, redaction }) => ({ ...retrieval, ...interleaving, ...redaction });

function inWords(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  return String(value ?? "–");
}

/** The memories of one answer that another lacks. */
function onlyIn(name, answer, other) {
  const known = new Set(other.memories.map((memory) => memory.id));
  const own = answer.memories.filter((memory) => !known.has(memory.id));
  return own.length > 0 && h("div", h("h3", `Only with ${name}`), h("ul.plain.effects", own.map((memory) => h("li", h("span.chain-text", firstWords(memory.content, 120))))));
}

/** `left` and `right` are `{name, policy, answer}`. */
export function difference(left, right) {
  const [one, two] = [settingsOf(left.policy), settingsOf(right.policy)];
  const changed = Object.keys({ ...one, ...two }).filter((key) => JSON.stringify(one[key]) !== JSON.stringify(two[key]));
  const [lost, gained] = [onlyIn(left.name, left.answer, right.answer), onlyIn(right.name, right.answer, left.answer)];
  return h("section.panel.difference", { "aria-label": "What differs" }, h("h2", "What differs"),
    changed.length === 0 ? h("p.muted", "The settings are the same.") : h("div.table-box", h("table.list",
      h("thead", h("tr", h("th", "Setting"), h("th", left.name), h("th", right.name))),
      h("tbody", changed.map((key) => h("tr", h("td.main-cell", NAMES[key] ?? key), h("td", { "data-name": left.name }, inWords(one[key])), h("td", { "data-name": right.name }, inWords(two[key]))))))),
    lost, gained, !lost && !gained && ![left, right].some(({ answer }) => answer.skipped || answer.error) && h("p.muted", "Both let the same memories through."));
}
