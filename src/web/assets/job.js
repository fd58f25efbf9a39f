// The view of one job, titled by its file: its state, what went where, warnings and errors, every batch and call.

import { all, get } from "./api.js";
import { callTable } from "./ask-result.js";
import { count, dollars, firstWords, h, milliseconds, number, put, whenWhole } from "./dom.js";
import { jobCard } from "./job-card.js";
import { duration, kindName } from "./jobs.js";
import { isOver, jobs, listen, watch } from "./live.js";
import { categoryPath, facts, head, problem, sentence } from "./parts.js";

export async function show(main, route, signal) {
  const live = h("div.active-jobs");
  const body = h("div.job-body");
  const back = () => h("p.back", h("a", { href: "#/jobs" }, "Jobs"));
  const title = h("div");
  put(main, back(), title, live, body);
  let job;
  try {
    job = await get(`/v1/jobs/${encodeURIComponent(route.id)}`, { signal });
  } catch (error) {
    if (error.name !== "AbortError") put(main, back(), problem(error));
    return;
  }
  const known = jobs().find((other) => other.job.id === job.id)?.name;
  const entry = watch(job, known);
  const card = jobCard(entry, { alone: true });
  // Among other cards it has a heading of level 3; here the title of the page is the only one above it.
  card.querySelector("h3").setAttribute("aria-level", "2");
  put(live, card);

  async function complete(now) {
    // Only a job that succeeded is sure to have a source.
    const source = now.state === "succeeded" && now.source_id ? await get(`/v1/sources/${now.source_id}`, { signal }).catch(() => null) : null;
    entry.name = source?.filename ?? known ?? kindName(now.kind);
    put(title, head(entry.name, source ? h("a", { href: `#/library/${source.id}` }, source.path) : kindName(now.kind)));
    document.title = `${entry.name} · memoir`;
    card.update();
    put(body, details(now), await whatWentWhere(now, source, signal), calls(now));
  }
  await complete(job);
  listen(async (other) => {
    if (other.job.id !== job.id) return;
    card.update();
    if (isOver(other.job) && !other.following) await complete(await get(`/v1/jobs/${job.id}`, { signal }));
  }, signal);
}

/** The leaves that the chunks of the ingestion were filed under. */
async function whatWentWhere(job, source, signal) {
  if (!source || !job.result?.version) return null;
  const { items } = await all(`/v1/sources/${source.id}/chunks`, { version: job.result.version }, 5000).catch(() => ({ items: [] }));
  if (signal.aborted || !items.length) return null;
  const leaves = new Map();
  for (const chunk of items) {
    const leaf = leaves.get(chunk.category_id) ?? { chunk, count: 0, words: firstWords(chunk.text_content, 90) };
    leaf.count += 1;
    leaves.set(chunk.category_id, leaf);
  }
  const moved = job.result.moved ?? [];
  return h("section.where", { "aria-label": "Chunks by category" }, h("h2", "Chunks by category"),
    h("ul.plain", [...leaves].sort(([, a], [, b]) => b.count - a.count).map(([id, leaf]) => h("li",
      id ? h("a", { href: `#/hierarchy/${id}` }, categoryPath(leaf.chunk.category_path)) : h("span.muted", "not filed"),
      h("span.num", count(leaf.count, "chunk")), h("span.muted.first-words", leaf.words)))),
    moved.length > 0 && h("p.muted", `${count(moved.length, "chunk")} of other sources moved to a category that fits better now.`));
}

function details(job) {
  const tokens = job.responses.reduce((all, call) => all + call.tokens_prompt + call.tokens_completion, 0);
  const priced = job.responses.every((call) => call.cost_usd !== null);
  const cost = priced ? job.responses.reduce((all, call) => all + call.cost_usd, 0) : null;
  return [
    facts(
      ["Kind", kindName(job.kind)],
      ["Received", whenWhole(job.created_at)], ["Duration", duration(job)],
      ["Attempts", `${number(job.attempt)} of ${number(job.max_attempts)}`],
      ["Calls", number(job.responses.length)], ["Tokens", number(tokens)], ["Cost", dollars(cost)]),
    h("p.muted", "Id ", h("code", job.id)),
    job.last_errors.length > 0 && h("section", { "aria-label": "Errors" }, h("h2", "Errors"), job.last_errors.map((error) => problem(error))),
    job.warnings.length > 0 && h("section", { "aria-label": "Warnings" }, h("h2", "Warnings"), h("ul.plain", job.warnings.slice(0, 100).map((warning) => h("li.notice", sentence(warning.message))))),
  ];
}

/** Every batch and every call, for those who want to know. */
function calls(job) {
  if (job.batches.length + job.responses.length === 0) return null;
  return h("details.all-calls", h("summary", `${count(job.batches.length, "batch", "batches")}, ${count(job.responses.length, "call")}`),
    job.batches.length > 0 && h("section", { "aria-label": "Batches" }, h("h2", "Batches"), h("div.table-box", h("table.list", { "aria-label": "Batches" },
      h("thead", h("tr", h("th", "Under"), h("th.num", "Level"), h("th.num", "Chunks"), h("th.num", "Filed"), h("th.num", "Retries"), h("th.num", "Failed"), h("th.num", "Time"))),
      h("tbody", job.batches.slice(0, 500).map((batch) => h("tr",
        h("td.main-cell", batch.parent_path ? categoryPath(batch.parent_path.split(" / ")) : h("span.muted", "top level")),
        h("td.num", { "data-name": "Level" }, number(batch.level)),
        h("td.num", { "data-name": "Chunks" }, number(batch.chunks_sent)),
        h("td.num", { "data-name": "Filed" }, number(batch.successes)),
        h("td.num", { "data-name": "Retries" }, number(batch.retries)),
        h("td.num", { "data-name": "Failed" }, number(batch.failures)),
        h("td.num", { "data-name": "Time" }, milliseconds(batch.latency_ms)))))))),
    callTable(job.responses));
}
