// The view of one job: its state, warnings and errors, every batch and every call.

import { get } from "./api.js";
import { callTable } from "./ask-result.js";
import { dollars, h, milliseconds, number, put, whenWhole } from "./dom.js";
import { jobCard } from "./job-card.js";
import { duration, kindName } from "./jobs.js";
import { isOver, listen, watch } from "./live.js";
import { badge, facts, head, problem, sentence, categoryPath } from "./parts.js";

export async function show(main, route, signal) {
  const live = h("div.active-jobs");
  const body = h("div.job-body");
  put(main, h("p.back", h("a", { href: "#/jobs" }, "Jobs")), head("Job"), live, body);
  let job;
  try {
    job = await get(`/v1/jobs/${encodeURIComponent(route.id)}`, { signal });
  } catch (error) {
    if (error.name !== "AbortError") put(main, h("p.back", h("a", { href: "#/jobs" }, "Jobs")), problem(error));
    return;
  }
  // Only a job that succeeded is sure to have a source.
  const source = job.state === "succeeded" && job.source_id ? await get(`/v1/sources/${job.source_id}`, { signal }).catch(() => null) : null;
  const entry = watch(job, source?.filename ?? kindName(job.kind));
  const card = jobCard(entry, { alone: true });
  put(live, card);
  put(body, details(job, source));
  listen(async (other) => {
    if (other.job.id !== job.id) return;
    card.update();
    if (isOver(other.job) && !other.following) put(body, details(await get(`/v1/jobs/${job.id}`, { signal }), source));
  }, signal);
}

function details(job, source) {
  const tokens = job.responses.reduce((all, call) => all + call.tokens_prompt + call.tokens_completion, 0);
  const priced = job.responses.every((call) => call.cost_usd !== null);
  const cost = priced ? job.responses.reduce((all, call) => all + call.cost_usd, 0) : null;
  return [
    facts(
      ["Kind", kindName(job.kind)], ["State", badge(job.state)],
      source && ["Source", h("a", { href: `#/library/${source.id}` }, source.path)],
      ["Received", whenWhole(job.created_at)], ["Duration", duration(job)],
      ["Attempts", `${number(job.attempt)} of ${number(job.max_attempts)}`],
      ["Calls", number(job.responses.length)], ["Tokens", number(tokens)], ["Cost", dollars(cost)]),
    h("p.muted", "Id ", h("code", job.id)),
    job.last_errors.length > 0 && h("section", { "aria-label": "Errors" }, h("h2", "Errors"), job.last_errors.map((error) => problem(error))),
    job.warnings.length > 0 && h("section", { "aria-label": "Warnings" }, h("h2", "Warnings"), h("ul.plain", job.warnings.slice(0, 100).map((warning) => h("li.notice", sentence(warning.message))))),
    job.batches.length > 0 && h("section", { "aria-label": "Batches" }, h("h2", "Batches"), h("div.table-box", h("table.list",
      h("thead", h("tr", h("th", "Under"), h("th.num", "Level"), h("th.num", "Chunks"), h("th.num", "Filed"), h("th.num", "Retries"), h("th.num", "Failed"), h("th.num", "Time"))),
      h("tbody", job.batches.slice(0, 500).map((batch) => h("tr",
        h("td.main-cell", batch.parent_path ? categoryPath(batch.parent_path.split(" / ")) : h("span.muted", "top level")),
        h("td.num", { "data-name": "Level" }, number(batch.level)),
        h("td.num", { "data-name": "Chunks" }, number(batch.chunks_sent)),
        h("td.num", { "data-name": "Filed" }, number(batch.successes)),
        h("td.num", { "data-name": "Retries" }, number(batch.retries)),
        h("td.num", { "data-name": "Failed" }, number(batch.failures)),
        h("td.num", { "data-name": "Time" }, milliseconds(batch.latency_ms)))))))),
    callTable(job.responses),
  ];
}
