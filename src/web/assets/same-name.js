// The question that is asked before text gets the file name of another source: a new version of it, or a source of its
// own?

import { get, query } from "./api.js";
import { h } from "./dom.js";
import { dialog, field } from "./parts.js";

/** The page ingests for this user. */
const USER = "default";

/** Other sources with a name; the one at the same path would get a new version anyway. */
export async function othersNamed(filename, path) {
  const list = (filters) => get(query("/v1/sources", { user_id: USER, sort: "-updated_at", limit: 10, ...filters })).then((page) => page.items, () => []);
  if (path && (await list({ path })).length) return [];
  return list({ filename });
}

/** Asks once for all names. Returns a map from name to source id, without the sources of their own; null if cancelled. */
export function ask(conflicts) {
  return new Promise((resolve) => {
    let answer = null;
    const picks = [...conflicts].map(([name, sources]) => [name, h("select", h("option", { value: "" }, "A source of its own"), sources.map((source) => h("option", { value: source.id }, `New version of ${source.path}`)))]);
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
    form.querySelector("select").focus();
  });
}
