// A card for one job: state, phase, numbers and actions. The card keeps its size while numbers change.

import { post } from "./api.js";
import { count, dollars, h, number, put, settle } from "./dom.js";
import { fullLines } from "./full.js";
import { describe } from "./helper.js";
import { changed, forget, isOver, watch } from "./live.js";
import { badge, failed, problem, say, stateName } from "./parts.js";

const PHASES = {
  chunking: "Cutting the text into chunks", helper: "Writing the helper", classifying: "Filing",
  embedding: "Embedding the chunks", committing: "Writing", balancing: "Balancing the hierarchy", walking: "Walking the hierarchy", answering: "Answering",
};

export function phaseText(job) {
  if (job.phase === "waiting_for_provider") return "Waiting for the model provider";
  if (job.state === "queued") return job.attempt > 0 ? "Waiting to retry" : "Queued";
  if (job.state === "awaiting_helper") return "Waiting for your helper";
  if (job.state === "succeeded") return summary(job);
  if (job.state === "failed") return "Failed";
  if (job.state === "cancelled") return "Cancelled; no version was added";
  const { level, depth } = job.progress ?? {};
  const phase = PHASES[job.phase] ?? job.phase ?? "Starting";
  return job.phase === "classifying" && level ? `${phase}: level ${level} of ${depth}` : phase;
}

function summary(job) {
  const result = job.result ?? {};
  if (result.shares_chunks_of_version) return `The same text as version ${result.shares_chunks_of_version}; no model was called`;
  if (result.version) return `Filed as version ${result.version}, ${count(result.categories_created, "new category", "new categories")}`;
  if (job.kind === "balance") return `${count(result.splits, "split")}, ${count(result.merges, "merge")}, ${count(result.chunks_moved, "chunk")} moved`;
  return "Done";
}

/** Progress from 0 to 1. */
export function share(job) {
  if (job.state === "succeeded") return 1;
  const { done = 0, total = 0 } = job.progress ?? {};
  switch (job.phase) {
    case "chunking": return 0.04;
    case "helper": return 0.1;
    case "classifying": return total ? 0.12 + 0.8 * (done / total) : 0.12;
    case "committing": return 0.96;
    default: return 0;
  }
}

/** The actions that the state allows: cancel, retry, write the helper. */
export function jobActions(job, after) {
  const act = (verb) => async (event) => {
    event.currentTarget.disabled = true;
    try {
      const now = await post(`/v1/jobs/${job.id}/${verb}`);
      changed(now);
      after?.(now);
    } catch (error) {
      event.target.disabled = false;
      failed(error);
    }
  };
  return [
    job.state === "awaiting_helper" && h("button.primary.small", { type: "button", onclick: () => describe(job, (now) => { watch(now); after?.(now); }) }, "Write helper"),
    !isOver(job) && h("button.small", { type: "button", onclick: act("cancel") }, "Cancel"),
    (job.state === "failed" || job.state === "cancelled") && h("button.small", { type: "button", onclick: act("retry") }, "Retry"),
  ].filter(Boolean);
}

/** Says how jobs ended; those that end together, in one sentence. */
const ended = new Map();
const sayEnded = settle(() => {
  const all = [...ended.values()];
  ended.clear();
  const states = [...new Set(all.map((one) => one.state))].map((state) => `${all.filter((one) => one.state === state).length} ${stateName(state).toLowerCase()}`);
  say(all.length === 1 ? all[0].words : `${all.length} jobs: ${states.join(", ")}`);
}, 700);

/** `alone`: on the job's own page, where the card has no close button and no link to details. */
export function jobCard(entry, { alone = false } = {}) {
  const title = h("h3.job-name");
  const state = h("span.job-state.row");
  const phase = h("p.job-phase");
  const bar = h("div.bar", { role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100" }, h("span"));
  const numbers = h("p.job-numbers");
  const actions = h("div.row.job-actions");
  const full = h("div.job-full");
  const trouble = h("div.job-trouble");
  const card = h("article.job-card", { "data-job": entry.job.id }, h("header", title, state), bar, h("div.job-now", phase, actions), numbers, full, trouble);
  // On its own page, an end is news only if it comes while it is shown.
  if (alone && isOver(entry.job)) entry.said = phaseText(entry.job);
  let actionsFor = "";
  let shownTrouble = null;
  let shownFull = 0;

  card.update = () => {
    const { job } = entry;
    const name = entry.name ?? job.result?.path ?? "A source";
    put(title, job.result?.source_id ? h("a", { href: `#/library/${job.result.source_id}` }, name) : name);
    put(state, badge(job.state), isOver(job) && !alone && h("button.quiet.icon.small.away", { type: "button", "aria-label": `Dismiss ${name}`, onclick: () => { forget(job.id); card.remove(); } }, "×"));
    phase.textContent = phaseText(job);
    const percent = Math.round(share(job) * 100);
    bar.firstChild.style.setProperty("--share", String(percent / 100));
    bar.setAttribute("aria-valuenow", String(percent));
    bar.setAttribute("aria-label", `${name}: ${stateName(job.state)}`);
    card.dataset.state = job.state;
    const { progress, result } = job;
    const chunks = result?.chunks_written ?? progress?.chunks;
    const filed = result ? chunks : progress?.chunks_filed ?? 0;
    const calls = result?.llm_calls ?? progress?.llm_calls;
    numbers.textContent = [
      chunks !== undefined && (result ? count(chunks, "chunk") : `${number(filed)} of ${count(chunks, "chunk")}`),
      calls !== undefined && count(calls, "call"),
      calls !== undefined && count(result?.tokens ?? progress?.tokens, "token"),
      calls !== undefined && dollars(result ? result.cost_usd : progress.cost_usd),
    ].filter(Boolean).join(" · ") || "\u00a0";
    if (actionsFor !== job.state) {
      actionsFor = job.state;
      put(actions, jobActions(job), isOver(job) && !alone && h("a.small-link", { href: `#/jobs/${job.id}` }, "Details"));
    }
    // The page of a job lists all of its warnings.
    const places = alone ? [] : fullLines(job);
    if (shownFull !== places.length) put(full, places);
    shownFull = places.length;
    const wrong = entry.lost ?? job.error;
    if (shownTrouble !== wrong) put(trouble, wrong && problem(wrong, { compact: true }));
    shownTrouble = wrong;
    if (entry.said !== phase.textContent && (isOver(job) || job.state === "awaiting_helper")) {
      entry.said = phase.textContent;
      ended.set(job.id, { state: job.state, words: `${name}: ${phase.textContent}` });
      sayEnded();
    }
  };
  card.update();
  return card;
}
