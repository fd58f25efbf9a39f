// The result of a query: the answer with its citations, the walk, the budget, chunks and calls.

import { access } from "./api.js";
import { count, dollars, firstWords, h, milliseconds, number, whenWhole } from "./dom.js";
import { categoryPath, facts, marked, sentence } from "./parts.js";
import { REASONS, walk } from "./walk.js";

/** Chunks shown at first. */
const FEW = 8;

/** Results of this visit, because receipts contain no text. */
export const results = new Map();

export const chunkLink = (chunk) => `#/library/${chunk.source_id}/chunks?version=${chunk.source_version}&chunk=${chunk.chunk_id}`;

/** `result` is missing after a reload, and `receipt` where receipts are disabled. */
export function showResult(result, receipt, sources) {
  const names = new Map(sources.map((source) => [source.id, source.filename]));
  const chunks = new Map((result?.chunks ?? []).map((chunk) => [chunk.chunk_id, chunk]));
  const calls = result?.responses ?? receipt?.responses ?? [];
  const totals = receipt?.totals ?? sum(calls, result);
  const used = result?.used_chunks?.map((item) => item.chunk_id) ?? receipt?.used_chunk_ids ?? [];
  const warnings = result?.warnings ?? receipt?.warnings ?? [];
  const asOf = (result ?? receipt)?.parameters?.as_of;
  return h("div.result-body",
    answer(result, receipt, chunks, names),
    facts(asOf && ["As of", whenWhole(asOf)],
      ["Calls", number(totals.calls)],
      ["Tokens in, all calls", number(totals.tokens_prompt)], ["Tokens out", number(totals.tokens_completion)],
      ["Cost", dollars(totals.cost_usd)],
      ["Time", milliseconds(result?.elapsed_ms ?? receipt?.elapsed_ms)],
      ["Chunks in the prompt", number(used.length)]),
    warnings.map((warning) => h("p.notice", sentence(warning.message))),
    tiers(result?.tiers ?? receipt?.tiers ?? []),
    receipt?.levels?.length > 0 && walk(receipt, calls),
    budget(result?.estimate ?? receipt?.estimate, calls),
    dropped(result ?? receipt),
    chunkList(result, used, names),
    callTable(calls));
}

function answer(result, receipt, chunks, names) {
  const title = h("h2.answer-title", { tabindex: "-1" }, "Answer");
  if (result?.answer) {
    return h("section.answer", { "aria-label": "Answer" }, title, h("p.answer-text", cited(result.answer, chunks, names)), quotes(result, names),
      result.confidence && h("p.confidence", h("span.badge", { class: result.confidence === "low" ? "wait" : "good" }, `${result.confidence} confidence`), " ", h("span.muted", TIERS[result.tier]?.[1] ?? "")));
  }
  if (result?.found === false) return nothingFound(result);
  if (result?.parameters?.mode === "retrieve") return h("section.answer", h("h2.answer-title", { tabindex: "-1" }, `${count(result.chunks.length, "chunk")} found`));
  if (!result && receipt?.found === false) return nothingFound({});
  if (!result && receipt?.state === "succeeded") {
    return h("section.answer", title, h("p.muted", `${count(receipt.answer_chars, "character")}. Receipts contain the walk but no text; “Replay as recorded” below shows the answer again.`));
  }
  if (receipt?.state === "failed") return h("section.answer", h("h2.answer-title", { tabindex: "-1" }, "No answer"), h("p.muted", "The query failed with ", h("code", receipt.error), "."));
  return null;
}

/** Kind words, what to do, and the chunks that come closest. */
function nothingFound({ nearest = [] }) {
  return h("section.answer.nothing", { "aria-label": "Answer" }, h("h2.answer-title", { tabindex: "-1" }, "memoir does not know this"),
    h("p", "No chunk answers the question, so there is no answer. Ask in other words, use fewer filters, or choose another strategy."),
    nearest.length > 0 && [h("h3", "What comes closest"), h("ul.quotes", nearest.map((chunk) => h("li",
      h("a", { href: chunkLink(chunk) }, [chunk.filename, chunk.heading].filter(Boolean).join(" › ")),
      h("blockquote", marked(chunk.text_content, chunk.highlights, 240)))))]);
}

/** The sentences that the answer rests on, with their files or threads. */
function quotes(result, names) {
  if (!(result.citations ?? []).length) return null;
  const place = (citation) => (citation.memory_id ? "Memory" : [citation.filename ?? names.get(citation.source_id), citation.heading].filter(Boolean).join(" › "));
  const link = (citation) => (!citation.memory_id ? chunkLink({ ...citation, source_version: citation.version }) : citation.thread_id ? `#/conversations/${citation.thread_id}` : "#/conversations?show=facts");
  return h("ol.quotes", { "aria-label": "Citations" }, result.citations.map((citation) => h("li",
    h("a", { href: link(citation) }, h("span.number", `[${citation.number ?? citation.chunk_id}]`), " ", place(citation)),
    h("blockquote", citation.quote))));
}

const TIERS = {
  recalled: ["Recalled", "The same question was answered before."],
  search: ["Search", "Found by search alone."],
  pick: ["Pick", "A model picked among the categories that the search found."],
  walk: ["Walk", "A model walked the hierarchy."],
};

const tierItem = (tier) => h("li.tier", { class: tier.decision === "stop" ? "last" : "" },
  h("h3", TIERS[tier.tier]?.[0] ?? tier.tier),
  h("p", `${count(tier.chunks, "chunk")} in ${count(tier.leaves, "leaf", "leaves")}, evidence ${tier.evidence.toFixed(2)}`),
  h("p.muted", sentence(tier.reason)));

/** What each tier of `auto` found, and why the query stopped there or went on. */
function tiers(items) {
  return items.length > 0 && h("section", { "aria-label": "Tiers" }, h("h2", "How it was found"), h("ol.tiers", items.map(tierItem)));
}

/** A query in progress: its tiers and levels as they happen, and the answer as it is written. */
export function live(strategy) {
  const doing = h("p", strategy === "auto" ? "Searching…" : "Walking the hierarchy…");
  const words = h("p.answer-text");
  const steps = h("ol.tiers");
  return {
    element: h("div.waiting", doing, words, steps),
    tier: (tier) => {
      steps.append(tierItem(tier));
      doing.textContent = tier.decision === "stop" ? "Reading what was found…" : "Looking further…";
    },
    level: ({ level, chosen, options }) => {
      const label = (choice) => choice.label ?? options.find((option) => option.id === choice.id)?.label ?? "";
      doing.textContent = `${level === 0 ? "Picked" : `Level ${level}`}: ${chosen.map((choice) => label(choice).split(" / ").pop()).join(", ")}`;
    },
    answer: ({ text }) => {
      doing.textContent = "Answering…";
      words.append(text);
    },
    answer_restarted: () => words.replaceChildren(),
  };
}

/** Turns `[12]` and `[3, 4]` into links to the chunks; anything else stays text. */
export function cited(text, chunks, names) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(/\[(\d+(?:\s*,\s*\d+)*)\]/g)) {
    const ids = match[1].split(",").map(Number);
    if (!ids.every((id) => chunks.has(id))) continue;
    parts.push(text.slice(at, match.index));
    parts.push(h("span.cites", ids.map((id) => {
      const chunk = chunks.get(id);
      return h("a.cite", { href: chunkLink(chunk), "data-cite": id, title: `${names.get(chunk.source_id) ?? "a source"}: ${chunk.category_path.join(" › ")}`, "aria-label": `Chunk ${id}, ${names.get(chunk.source_id) ?? "a source"}` }, `[${id}]`);
    })));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

function sum(calls, result) {
  const total = (name) => calls.reduce((all, call) => all + (call[name] ?? 0), 0);
  const unknown = calls.some((call) => call.cost_usd === null || call.cost_usd === undefined);
  return { calls: calls.length, tokens_prompt: total("tokens_prompt"), tokens_completion: total("tokens_completion"), cost_usd: unknown ? null : total("cost_usd"), total_latency: result?.total_latency };
}

/** How much of the budget the prompt uses. */
function budget(estimate, calls) {
  if (!estimate) return null;
  const whole = Math.max(estimate.max_token_budget, estimate.fixed_prompt_token_count + estimate.chunks_total_token_count);
  const part = (name, tokens) => {
    const element = h("span", { class: name });
    element.style.setProperty("--share", String(tokens / whole));
    return element;
  };
  return h("section.budget", { "aria-label": "Budget" },
    h("h2", "Budget"),
    h("div.stack", { "aria-hidden": "true" }, part("fixed", estimate.fixed_prompt_token_count), part("chunks-part", estimate.chunks_total_token_count),
      whole > estimate.max_token_budget && part("allowed", estimate.max_token_budget)),
    h("p.muted", budgetWords(estimate, calls.filter((call) => call.stage === "answer" && call.outcome === "ok").at(-1)?.tokens_prompt)));
}

/** The tokens of the prompt that writes the answer, in numbers that add up: all are counted with the tokenizer of the
 * budget. A provider may count with another one. */
function budgetWords({ fixed_prompt_token_count: fixed, chunks_total_token_count: chunks, max_token_budget: most, final_prompt_token_count: sent, tokenizer }, counted) {
  const parts = (rest) => `${number(rest)} for instructions, question and helpers, ${number(chunks)} for chunks`;
  if (!sent) return `A prompt with all chunks has ${number(fixed + chunks)} tokens: ${parts(fixed)}. ${number(most)} are allowed.`;
  const other = counted > most ? ` The provider counts ${number(counted)} tokens; the budget is counted with ${tokenizer}.` : "";
  if (fixed + chunks > most || sent <= chunks) return `A prompt with all chunks needs ${number(fixed + chunks)} tokens; ${number(most)} are allowed, and ${number(sent)} were sent.${other}`;
  return `The prompt has ${number(sent)} of ${number(most)} tokens allowed: ${parts(sent - chunks)}.${other}`;
}

function dropped(from) {
  const paths = from?.dropped_paths ?? [];
  const chunks = from?.dropped_chunks ?? [];
  const errors = from?.path_errors ?? [];
  if (paths.length + chunks.length + errors.length === 0) return null;
  const byPath = new Map();
  for (const item of chunks) {
    const name = item.category_path.join("\n");
    byPath.set(name, [...(byPath.get(name) ?? []), item.chunk_id]);
  }
  return h("section.dropped", { "aria-label": "Dropped" }, h("h2", "Dropped"),
    h("ul.plain",
      paths.map((item) => h("li", categoryPath(item.path), " ", h("span.tag.reason", REASONS[item.reason] ?? item.reason))),
      [...byPath].map(([name, ids]) => h("li", categoryPath(name.split("\n")), " ", h("span.tag.reason", `${count(ids.length, "chunk")} did not fit the budget`), " ", h("span.muted", ids.slice(0, 30).map((id) => `[${id}]`).join(" "), ids.length > 30 && " …"))),
      errors.map((item) => h("li", categoryPath(item.path), " ", h("span.muted", item.message)))));
}

/** How many chunks were found, how many the model read, and how many its answer names. */
function usedWords(result, used) {
  const cited = new Set((result.citations ?? []).map((citation) => citation.chunk_id).filter(Boolean)).size;
  const found = result.chunks.length > used.size ? `${count(result.chunks.length, "chunk")} found; ` : "";
  return `${found}${count(used.size, "chunk")} ${used.size === 1 ? "was" : "were"} given to the model${result.answer ? `, ${number(cited)} ${cited === 1 ? "is" : "are"} cited` : ""}.`;
}

function chunkList(result, used, names) {
  if (!result?.chunks?.length) return null;
  const set = new Set(used);
  const item = (chunk, position) => h("li", { class: set.has(chunk.chunk_id) || result.parameters.mode === "retrieve" ? "" : "unused" },
    h("details.found-chunk", h("summary",
      h("span.number", `[${chunk.chunk_id}]`), h("span.first-words", firstWords(chunk.text_content, 110)),
      !set.has(chunk.chunk_id) && result.parameters.mode !== "retrieve" && h("span.tag.reason", "not in the prompt")),
    h("p.muted", h("a", { href: chunkLink(chunk) }, `${names.get(chunk.source_id) ?? "The source"}, characters ${number(chunk.start_char)}–${number(chunk.end_char)}`), " · ", categoryPath(chunk.category_path), ` · rank ${chunk.rank ?? position + 1}${chunk.relevance === undefined ? "" : `, relevance ${chunk.relevance.toFixed(2)}`}`),
    h("p.verbatim", marked(chunk.text_content, chunk.highlights))));
  const list = h("ol.plain.found-chunks", result.chunks.slice(0, FEW).map(item));
  const more = h("button.link", { type: "button", onclick: () => {
    more.remove();
    list.append(...result.chunks.slice(FEW, 100).map((chunk, index) => item(chunk, index + FEW)));
  } }, `${number(Math.min(100, result.chunks.length) - FEW)} more`);
  return h("section", { "aria-label": "Chunks" }, h("h2", "Chunks"),
    h("p.muted", result.parameters.mode === "retrieve" ? `${count(result.chunks.length, "chunk")} found.` : usedWords(result, set)),
    list, result.chunks.length > FEW && more, result.chunks.length > 100 && h("p.muted", `The first 100 of ${number(result.chunks.length)}.`));
}

export function callTable(calls) {
  if (!calls.length) return null;
  return h("section", { "aria-label": "Calls" }, h("h2", "Calls"), h("div.table-box", h("table.list.calls", { "aria-label": "Calls" },
    h("thead", h("tr", h("th", "Stage"), h("th.num", "Level"), h("th", "Outcome"), h("th", "Model"), h("th.num", "Tokens in"), h("th.num", "Out"), h("th.num", "Time"), h("th.num", "Cost"))),
    h("tbody", calls.slice(0, 500).map((call) => h("tr",
      h("td.main-cell", call.stage, call.attempt > 1 && h("span.muted", ` attempt ${call.attempt}`)),
      h("td.num", { "data-name": "Level" }, call.level ?? "–"),
      h("td", { "data-name": "Outcome" }, h("span.badge", { class: call.outcome === "ok" ? "good" : "bad" }, call.outcome)),
      h("td", { "data-name": "Model" }, `${call.provider}:${call.model}`),
      h("td.num", { "data-name": "Tokens in" }, number(call.tokens_prompt)),
      h("td.num", { "data-name": "Tokens out" }, number(call.tokens_completion)),
      h("td.num", { "data-name": "Time" }, milliseconds(call.latency_ms)),
      h("td.num", { "data-name": "Cost" }, dollars(call.cost_usd))))))),
  calls.length > 500 && h("p.muted", `The first 500 of ${number(calls.length)}.`));
}

/** The same query as a curl command. It names the variable of the key and never shows the key. */
export function curl(body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  return [
    `curl -s ${location.origin}/v1/queries`, "-H 'Content-Type: application/json'",
    access.space && `-H 'X-Memoir-Space: ${access.space}'`, access.key && "-H \"Authorization: Bearer $MEMOIR_KEY\"",
    `-d '${quoted}'`,
  ].filter(Boolean).join(" \\\n  ");
}
