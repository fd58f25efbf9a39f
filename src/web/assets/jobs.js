// The job list, by state, with errors and their remedies.

import { get, query } from "./api.js";
import { h, milliseconds, number, put, when } from "./dom.js";
import { fullLines } from "./full.js";
import { jobActions, phaseText } from "./job-card.js";
import { isOver, jobs } from "./live.js";
import { badge, head, paged, sentence } from "./parts.js";

const FILTERS = [["", "All"], ["queued", "Queued"], ["running", "Running"], ["awaiting_helper", "Needs a helper"], ["succeeded", "Done"], ["failed", "Failed"], ["cancelled", "Cancelled"]];
const KINDS = { ingestion: "Ingestion", query: "Query", enrich: "Classification of messages", extract: "Extraction of facts", backfill: "Classification with new terms", reclassify: "Change of the vocabulary", balance: "Balance of the hierarchy", reembed: "Change of the embedding model", reindex: "Update of search terms" };
const POLL_MS = 3000;
/** Pages of sources that are read for the names of a page of jobs. */
const MAX_PAGES = 4;

export const kindName = (kind) => KINDS[kind] ?? kind;

export const duration = (job) => (job.started_at ? milliseconds(new Date(job.finished_at ?? Date.now()) - new Date(job.started_at)) : "–");

export async function show(main, route, signal) {
  const state = route.get("state") ?? "";
  const body = h("tbody");
  // The source of a job may not exist yet, or no longer, so names come from the list and not from single requests.
  const names = new Map();
  // The newest jobs work on the newest sources, so a short page usually has all names.
  const learn = async (listed) => {
    const isUnknown = (job) => job.state === "succeeded" && job.source_id && !names.has(job.source_id);
    let cursor;
    for (let pages = 0; pages < MAX_PAGES && listed.some(isUnknown); pages += 1) {
      const page = await get(query("/v1/sources", { newest_first: true, limit: 50, cursor }), { signal }).catch(() => ({ items: [] }));
      for (const source of page.items) names.set(source.id, source.filename);
      cursor = page.next_cursor;
      if (!cursor) return;
    }
  };
  const fill = (row, job) => {
    const source = (job.source_id && names.get(job.source_id)) ?? jobs().find((entry) => entry.job.id === job.id)?.name;
    const actions = jobActions(job, (now) => { Object.assign(job, now); fill(row, job); });
    // Every row has the same buttons, so each says whose it is.
    for (const button of actions) button.setAttribute("aria-label", `${button.textContent} ${source ?? `${kindName(job.kind)} ${job.id}`}`);
    put(row,
      h("td.main-cell", h("a.name", { href: `#/jobs/${job.id}` }, source ?? kindName(job.kind)),
        source ? h("span.kind", kindName(job.kind)) : h("span.path", job.id)),
      h("td", { "data-name": "State" }, badge(job.state)),
      h("td.job-what", { "data-name": "" }, job.error
        ? [h("span.problem-line", sentence(job.error.detail)), h("span.muted", job.error.remediation)]
        : [phaseText(job), fullLines(job)]),
      h("td.num", { "data-name": "Attempts" }, `${number(job.attempt)} of ${number(job.max_attempts)}`),
      h("td.num", { "data-name": "Duration" }, duration(job)),
      h("td", { "data-name": "Received" }, when(job.created_at)),
      h("td.actions-cell", { "data-name": "" }, h("div.row", actions)));
    row.dataset.state = job.state;
    row.dataset.job = job.id;
    return row;
  };
  const rows = new Map();
  const pages = paged(body, async (cursor) => {
    const page = await get(query("/v1/jobs", { state, limit: 50, cursor }), { signal });
    await learn(page.items);
    return page;
  }, (job) => {
    const row = fill(h("tr"), job);
    rows.set(job.id, { row, job });
    return row;
  }, h("p.empty", state ? "No job is in this state." : "There are no jobs yet. Ingesting text creates one."));
  put(main, head("Jobs", "Background work: ingestion, and queries that run as jobs."),
    h("nav.tabs", { "aria-label": "By state" }, FILTERS.map(([value, name]) =>
      h("a", { href: value ? `#/jobs?state=${value}` : "#/jobs", "aria-current": value === state ? "page" : null }, name))),
    h("div.table-box.jobs-box", h("table.list.jobs", { "aria-label": "Jobs" },
      h("thead", h("tr", h("th", "Job"), h("th", "State"), h("th", "Details"), h("th.num", "Attempts"), h("th.num", "Duration"), h("th", "Received"), h("th", h("span.sr", "Actions")))), body), pages.foot));
  await pages.start();

  // Polls jobs that have not ended; rows that did not change are left alone.
  const timer = setInterval(async () => {
    for (const { row, job } of [...rows.values()].filter((item) => !isOver(item.job)).slice(0, 20)) {
      const now = await get(`/v1/jobs/${job.id}`, { signal }).catch(() => null);
      if (now && (now.state !== job.state || now.phase !== job.phase)) {
        await learn([now]);
        Object.assign(job, now);
        fill(row, job);
      }
    }
  }, POLL_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}
