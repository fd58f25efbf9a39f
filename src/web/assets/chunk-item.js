// A chunk in a list, with its leaf; and one that can be filed elsewhere.

import { get } from "./api.js";
import { moveChunk } from "./care.js";
import { doneLine } from "./care-dialog.js";
import { count, h, number } from "./dom.js";
import { categoryPath, failed } from "./parts.js";

/** A chunk; a filed one has a button that calls `move()`. */
export function chunkItem(chunk, move, source) {
  return h("li.chunk", { "data-chunk": chunk.chunk_id, id: `chunk-${chunk.chunk_id}`, tabindex: "-1" },
    h("div.chunk-head",
      h("span.number", { title: "The chunk number, as answers cite it" }, `[${chunk.chunk_id}]`),
      chunk.category_id ? h("a", { href: `#/hierarchy/${chunk.category_id}` }, categoryPath(chunk.category_path)) : categoryPath(chunk.category_path),
      h("span.muted", source ?? `characters ${number(chunk.start_char)}–${number(chunk.end_char)}`),
      h("span.muted", count(chunk.token_count, "token")),
      chunk.category_id && h("button.link", { type: "button", "aria-label": `Move to another leaf… (chunk ${chunk.chunk_id})`, onclick: move }, "Move to another leaf…")),
    h("p.verbatim", chunk.text_content));
}

/** A chunk that is drawn again, where it is, once it has moved to another leaf. */
export function movableChunk(first) {
  let item;
  const draw = (chunk, line) => {
    const next = chunkItem(chunk, () => move(chunk));
    if (line) next.append(line);
    item?.replaceWith(next);
    item = next;
    line?.focus();
    return item;
  };
  const move = async (chunk) => {
    const undone = async () => draw(await get(`/v1/chunks/${chunk.chunk_id}`), doneLine("The change is undone."));
    try {
      const done = await moveChunk(chunk);
      if (done) draw(done.chunk, doneLine(done.words, done.change, undone));
    } catch (error) { failed(error); }
  };
  return draw(first);
}
