// Search: the field above the library, and the chunks found.

import { post, query } from "./api.js";
import { count, h, milliseconds, put } from "./dom.js";
import { marked, problem } from "./parts.js";

const TYPES = { hybrid: "Keywords and meaning", keyword: "Keywords", semantic: "Meaning" };
/** Maximum characters shown of a chunk. */
const LONG = 350;
/** The cosine, and the share of the best score, below which a chunk without a word of the query is a weak match. */
const MIN_MEANING = 0.25;
const MIN_SHARE = 0.4;

export function searchForm(route) {
  const words = h("input", { type: "search", name: "search", placeholder: "Search chunks", "aria-label": "Search chunks", autocomplete: "off", maxlength: 10000, value: route.get("search") ?? "" });
  const type = h("select", { name: "type", "aria-label": "Search by" }, Object.entries(TYPES).map(([name, title]) =>
    h("option", { value: name, selected: name === route.get("type") }, title)));
  // The order and the filters of the list stay.
  const go = () => { location.hash = query("#/library", { ...Object.fromEntries(new URLSearchParams(location.hash.split("?")[1])), search: words.value.trim(), type: type.value === "hybrid" ? "" : type.value }); };
  type.addEventListener("change", () => { if (words.value.trim()) go(); });
  // Cleared with its own button: back to the list.
  words.addEventListener("input", () => { if (!words.value && route.get("search")) go(); });
  return h("form.search.row", { role: "search", onsubmit: (event) => { event.preventDefault(); go(); } },
    words, type, h("button", { type: "submit" }, "Search"));
}

function item(found) {
  const parts = [["keywords", found.score_parts.keyword], ["meaning", found.score_parts.semantic]]
    .filter(([, score]) => score !== null).map(([name, score]) => `${name} ${score.toFixed(2)}`).join(", ");
  return h("li.chunk", { "data-chunk": found.chunk_id },
    h("div.chunk-head",
      h("a", { href: `#/library/${found.source_id}/text?version=${found.source_version}&from=${found.start_char}&to=${found.end_char}&hits=${found.highlights.map(({ start, end }) => `${start}-${end}`)}` }, found.filename),
      h("span.muted", `score ${found.score.toFixed(2)}`), h("span.muted", parts)),
    h("p.verbatim", marked(found.text_content, found.highlights, LONG)));
}

/** A search by meaning always finds something; what shares no word with the query must be close to it and to the best. */
function isNear({ score, score_parts: { keyword, semantic } }, best) {
  return keyword > 0 || (semantic >= MIN_MEANING && score >= best * MIN_SHARE);
}

/** Shows the results in place of the list. */
export async function results(place, route, signal) {
  const type = TYPES[route.get("type")] ? route.get("type") : "hybrid";
  put(place, h("p.muted", { "aria-busy": "true" }, "Searching…"));
  try {
    // With the weak matches, which are shown on request.
    const answer = await post("/v1/search", { query: route.get("search"), type, k: 10, min_score: 0 }, { signal });
    const best = answer.items[0]?.score ?? 0;
    const [near, weak] = [[], []];
    for (const found of answer.items) (isNear(found, best) ? near : weak).push(found);
    const list = h("ol.chunks", near.map(item));
    const rest = h("button.link", { type: "button", onclick: () => {
      rest.remove();
      list.append(...weak.map(item));
    } }, `Show ${count(weak.length, "weak match", "weak matches")}`);
    put(place,
      h("p.lead", { tabindex: "-1" }, near.length ? `${count(near.length, "chunk")}, best first, in ${milliseconds(answer.timings.total_ms)}` : "No chunk matches."),
      list, weak.length > 0 && rest);
    // The form was drawn anew, so reading goes on at the results.
    const { activeElement: at } = document;
    if (at === document.body || (at.matches("form.search input") && at.value === route.get("search"))) place.querySelector(".lead").focus({ preventScroll: true });
  } catch (error) {
    if (error.name !== "AbortError") put(place, problem(error));
  }
}
