// The library: every source, running ingestions, and the panel to ingest text.

import { all, call, get, query } from "./api.js";
import { addPanel } from "./add.js";
import { bytes, count, h, number, put, settle, when } from "./dom.js";
import { jobCard } from "./job-card.js";
import { forget, isOver, jobs, listen, watch } from "./live.js";
import { failed, head, problem, toast, toggle } from "./parts.js";
import { results, searchForm } from "./search.js";
import { triedQuestions, welcome } from "./welcome.js";

const PAGE = 50;

/** Changes a source only if it has not changed since it was shown. */
export async function change(source, body) {
  const { data, etag } = await call("GET", `/v1/sources/${source.id}`);
  if (data.updated_at !== source.updated_at) {
    Object.assign(source, data);
    throw Object.assign(new Error(), { detail: `${data.filename} has changed in the meantime`, remediation: "The page now shows the current state; check it and try again." });
  }
  const changed = await call("PATCH", `/v1/sources/${source.id}`, { body, headers: { "If-Match": etag } });
  Object.assign(source, changed.data);
  return source;
}

export function eligibility(source, after) {
  return toggle(`Queries may use ${source.filename}`, source.eligible, async (on) => {
    try {
      await change(source, { eligible: on });
    } finally {
      after?.();
    }
    toast(source.eligible ? `Queries use ${source.filename} again` : `Queries no longer use ${source.filename}`);
    return source.eligible;
  });
}

export const userTags = (source) => source.tags.filter((tag) => tag !== "file_ingest");

function row(source, onTag) {
  const folder = source.path.slice(0, source.path.length - source.filename.length).replace(/(.)\/$/, "$1");
  const updated = h("td", { "data-name": "Updated" }, when(source.updated_at));
  return h("tr", { "data-source": source.id },
    h("td.main-cell", h("a.name", { href: `#/library/${source.id}` }, source.filename), h("span.path", folder),
      h("span.about", { title: source.helper ?? "" }, source.helper || "No helper")),
    h("td", { "data-name": "Tags" }, userTags(source).map((tag) => h("button.tag", { type: "button", "aria-label": `Only sources with the tag ${tag}`, onclick: () => onTag(tag) }, tag))),
    h("td.num", { "data-name": "Versions" }, number(source.latest_version)),
    h("td.num", { "data-name": "Size" }, bytes(source.size_bytes)),
    h("td.switch-cell", { "data-name": "In use" }, eligibility(source, () => put(updated, when(source.updated_at)))),
    updated);
}

const SORTS = {
  name: (a, b) => a.filename.localeCompare(b.filename), versions: (a, b) => a.latest_version - b.latest_version,
  size: (a, b) => (a.size_bytes ?? 0) - (b.size_bytes ?? 0), updated: (a, b) => a.updated_at.localeCompare(b.updated_at),
};

/** Column heads that sort; `change({by, down})` is called with the new order, `by` null for newest first. */
function sortHead(change) {
  let order = { by: null, down: true };
  const heads = new Map();
  const column = (by, label, kind = "") => {
    const cell = h("th", { class: kind }, h("button.sort", { type: "button", onclick: () => {
      order = order.by === by ? (order.down === (by !== "name") ? { by, down: !order.down } : { by: null, down: true }) : { by, down: by !== "name" };
      for (const [name, other] of heads) {
        if (name === order.by) other.setAttribute("aria-sort", order.down ? "descending" : "ascending");
        else other.removeAttribute("aria-sort");
      }
      change(order);
    } }, label));
    heads.set(by, cell);
    return cell;
  };
  return h("thead", h("tr", column("name", "Source"), h("th", "Tags"), column("versions", "Versions", "num"), column("size", "Size", "num"), h("th", "In use"), column("updated", "Updated")));
}

export async function show(main, route, signal) {
  const body = h("tbody");
  const foot = h("div.more");
  const total = h("p.lead", { "aria-live": "polite" }, "\u00a0");
  const known = h("datalist", { id: "tags" });
  const tag = h("input", { type: "search", placeholder: "Tag", "aria-label": "Only sources with this tag", autocomplete: "off", list: "tags" });
  const use = h("select", { "aria-label": "Only sources that are in use, or excluded" },
    h("option", { value: "" }, "All"), h("option", { value: "true" }, "In use"), h("option", { value: "false" }, "Excluded"));
  let order = { by: null, down: true };
  const table = h("div.table-box", h("table.list.sources", h("caption.sr", "Sources; newest first unless sorted by a column"),
    sortHead((next) => { order = next; refresh(); }), body), foot);
  const finished = h("details.finished-jobs", { hidden: true });
  const clear = h("button.small.clear-jobs", { type: "button", hidden: true, onclick: () => {
    for (const entry of jobs().filter((other) => isOver(other.job))) {
      forget(entry.job.id);
      cards.get(entry.job.id)?.remove();
    }
    tidy();
  } }, "Clear finished");
  const active = h("section.active-jobs", { "aria-label": "Ingestions", hidden: true }, clear);
  const heading = h("div.head", h("div", h("h1", { tabindex: "-1" }, "Library"), total),
    h("div.row.filters", tag, known, use,
      // On narrow screens the panel is below the list.
      h("button.only-narrow", { type: "button", onclick: () => { main.querySelector(".add").scrollIntoView(); main.querySelector(".drop button").focus({ preventScroll: true }); } }, "Ingest text")));
  const first = h("div.first", { hidden: true });
  const searching = Boolean(route.get("search"));
  const search = searchForm(route);
  const found = h("section.results", { "aria-label": "Search results", hidden: !searching });
  const questions = triedQuestions();
  // Cards appear beside the table, so that no row moves under the pointer.
  put(main, first, h("div.library", h("div.library-main", heading, search, found, table), h("aside.side", addPanel(), questions, finished, active)));

  function setFirst(isFirst) {
    if (isFirst && first.hidden) put(first, welcome(() => questions.reveal()));
    first.hidden = !isFirst;
    table.hidden = isFirst || searching;
    search.hidden = isFirst;
    heading.hidden = isFirst;
    main.classList.toggle("is-first", isFirst);
  }

  const byTag = (name) => {
    tag.value = name;
    refresh();
    tag.focus({ preventScroll: true });
  };
  const tags = new Set();
  let shown = 0;
  function append(items) {
    for (const name of items.flatMap(userTags)) {
      if (!tags.has(name)) known.append(h("option", { value: name }));
      tags.add(name);
    }
    body.append(...items.map((source) => row(source, byTag)));
    shown += items.length;
  }

  /** Newest first, page by page; any other order needs all sources, of which a page is drawn at a time. */
  async function page(cursor, limit = PAGE) {
    const filters = { tag: tag.value.trim(), eligible: use.value };
    const { items, next_cursor: next } = order.by && !Array.isArray(cursor)
      ? { items: (await all("/v1/sources", filters)).items.sort((a, b) => SORTS[order.by](a, b) * (order.down ? -1 : 1)) }
      : Array.isArray(cursor) ? { items: cursor } : await get(query("/v1/sources", { ...filters, newest_first: true, limit, cursor }), { signal });
    if (!cursor) { body.replaceChildren(); shown = 0; }
    append(items.slice(0, limit));
    const rest = items.length > limit ? items.slice(limit) : next;
    const filtered = filters.tag || filters.eligible;
    setFirst(shown === 0 && !filtered && jobs().length === 0);
    total.textContent = `${count(shown, "source")}${rest ? " shown, there are more" : ""}`;
    put(foot,
      rest && h("button", { type: "button", onclick: () => page(rest).catch(failed) }, "Show more"),
      shown === 0 && h("p.empty", filtered ? "No source matches the filters." : "Sources appear here once they are filed."));
  }
  const refresh = settle(() => page(undefined, Math.min(500, Math.max(PAGE, shown + 10))).catch(failed), 250);
  tag.addEventListener("input", refresh);
  use.addEventListener("change", refresh);

  const cards = new Map();
  const over = new Set(jobs().filter((entry) => isOver(entry.job)).map((entry) => entry.job.id));
  /** Jobs that were over before this visit of the view are folded; the others stay where they are. */
  const wereOver = new Set(over);
  function tidy() {
    const old = finished.querySelectorAll(".job-card").length;
    finished.hidden = old === 0;
    if (old) put(finished.querySelector("summary") ?? finished.appendChild(h("summary")), count(old, "finished ingestion"));
    active.hidden = active.querySelectorAll(".job-card").length + old === 0;
    clear.hidden = !jobs().some((entry) => isOver(entry.job));
  }
  function showJob(entry) {
    if (entry.job.kind && entry.job.kind !== "ingestion") return;
    if (!cards.has(entry.job.id)) {
      const card = jobCard(entry);
      cards.set(entry.job.id, card);
      if (wereOver.has(entry.job.id) && !finished.firstChild) finished.append(h("summary"));
      (wereOver.has(entry.job.id) ? finished : active).append(card);
      setFirst(false);
    }
    cards.get(entry.job.id).update();
    tidy();
    if (entry.job.state === "succeeded" && !over.has(entry.job.id)) refresh();
    if (isOver(entry.job)) over.add(entry.job.id);
    else over.delete(entry.job.id);
  }
  jobs().forEach(showJob);
  listen(showJob, signal);
  new MutationObserver(tidy).observe(active, { childList: true });
  new MutationObserver(tidy).observe(finished, { childList: true });

  table.hidden = searching;
  try {
    await Promise.all([page(), searching && results(found, route, signal)]);
    for (const state of ["running", "awaiting_helper", "queued"]) {
      const { items } = await get(query("/v1/jobs", { state, kind: "ingestion", limit: 50 }), { signal });
      items.reverse().forEach((job) => watch(job));
    }
  } catch (error) {
    if (error.name !== "AbortError") put(main, head("Library"), problem(error));
  }
}

