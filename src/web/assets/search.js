// Search: the field above the library, and the chunks found.

import { post } from "./api.js";
import { count, h, milliseconds, put } from "./dom.js";
import { marked, problem } from "./parts.js";

const TYPES = { hybrid: "Keywords and meaning", keyword: "Keywords", semantic: "Meaning" };
/** Maximum characters shown of a chunk. */
const LONG = 350;

export const searchAddress = (words, type = "hybrid") => `#/library?search=${encodeURIComponent(words)}${type === "hybrid" ? "" : `&type=${type}`}`;

export function searchForm(route) {
  const words = h("input", { type: "search", name: "search", placeholder: "Search chunks", "aria-label": "Search chunks", autocomplete: "off", maxlength: 10000, value: route.get("search") ?? "" });
  const type = h("select", { name: "type", "aria-label": "Search by" }, Object.entries(TYPES).map(([name, title]) =>
    h("option", { value: name, selected: name === route.get("type") }, title)));
  const go = () => { location.hash = words.value.trim() ? searchAddress(words.value.trim(), type.value) : "#/library"; };
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
      h("a", { href: `#/library/${found.source_id}/text?version=${found.source_version}&from=${found.start_char}&to=${found.end_char}` }, found.filename),
      h("span.muted", `score ${found.score.toFixed(2)}`), h("span.muted", parts)),
    h("p.verbatim", marked(found.text_content, found.highlights, LONG)));
}

/** Shows the results in place of the list. */
export async function results(place, route, signal) {
  const type = TYPES[route.get("type")] ? route.get("type") : "hybrid";
  put(place, h("p.muted", { "aria-busy": "true" }, "Searching…"));
  try {
    const answer = await post("/v1/search", { query: route.get("search"), type, k: 10 }, { signal });
    put(place,
      h("p.lead", { "aria-live": "polite" }, answer.items.length ? `${count(answer.items.length, "chunk")}, best first, in ${milliseconds(answer.timings.total_ms)}` : "No chunks found."),
      h("ol.chunks", answer.items.map(item)));
  } catch (error) {
    if (error.name !== "AbortError") put(place, problem(error));
  }
}
