// The question that is asked before text gets the file name of another source: a new version of it, or a source of its
// own?

import { get, query } from "./api.js";
import { h } from "./dom.js";
import { dialog, field } from "./parts.js";

/** Other sources with a name; the one at the same path would get a new version anyway. */
export async function othersNamed(filename, path) {
  const { items } = await get(query("/v1/sources", { filename, sort: "-updated_at", limit: 10 })).catch(() => ({ items: [] }));
  return items.some((source) => source.path === path) ? [] : items;
}

/** Asks once for all names. Returns a map from name to source id, without the sources of their own; null if cancelled. */
export function ask(conflicts) {
  return new Promise((resolve) => {
    let answer = null;
    const picks = [...conflicts].map(([name, sources]) => [name, h("select", sources.map((source) => h("option", { value: source.id }, `New version of ${source.path}`)), h("option", { value: "" }, "A source of its own"))]);
    const form = h("form",
      h("p", picks.length === 1 ? "The library has a source with this name." : "The library has sources with these names."),
      picks.map(([name, pick]) => field(name, pick)),
      h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), h("button.primary", { type: "submit" }, "Ingest")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = new Map(picks.filter(([, pick]) => pick.value).map(([name, pick]) => [name, pick.value]));
      box.close();
    });
    const box = dialog("Is it the same document?", form);
    box.addEventListener("close", () => resolve(answer));
  });
}
