// Where the hierarchy is full: a line for each such place, in the library, and with the jobs and sources that met it.

import { get } from "./api.js";
import { h, number } from "./dom.js";
import { categoryPath, sentence } from "./parts.js";

const CODES = ["parent_full", "level_full"];
/** Places that are listed one by one. */
const MAX_LISTED = 5;

/** What a job said about full places. */
export const fullLines = (job) => (job.warnings ?? []).filter((warning) => CODES.includes(warning.code)).map((warning) => h("span.notice", sentence(warning.message)));

/** What the last ingestion of a source said about full places. */
export async function fullWhenFiled(sourceId, signal) {
  const page = await get(`/v1/jobs?kind=ingestion&state=succeeded&source_id=${encodeURIComponent(sourceId)}&limit=1`, { signal });
  return page.items.flatMap(fullLines);
}

const place = (parent) => (parent.id ? h("a", { href: `#/hierarchy/${parent.id}` }, categoryPath(parent.path)) : "Level 1");

/** The places that are full now, and what to do; null if there are none. */
export async function fullNotice(signal) {
  const tree = await get("/v1/categories/tree?limit=1", { signal });
  const levels = tree.limit_scope === "level" ? tree.levels.filter((level) => level.categories >= level.limit) : [];
  const places = [
    ...tree.full_parents.map((parent) => h("li", place(parent), ` is full (${number(parent.limit)} categories).`)),
    ...levels.map((level) => h("li", `Level ${level.level} is full (${number(level.limit)} categories).`)),
  ];
  if (places.length === 0) return null;
  const setting = tree.limit_scope === "level" ? "taxonomy.max_categories_default" : "taxonomy.max_children";
  return h("div.notice", { role: "status", "aria-label": "Full categories" },
    h("ul.plain", places.slice(0, MAX_LISTED), places.length > MAX_LISTED && h("li", `${number(places.length - MAX_LISTED)} more are full.`)),
    h("p", "Text on new subjects is filed under the categories that exist. Raise ", h("code", setting), " and restart, or delete empty categories."));
}
