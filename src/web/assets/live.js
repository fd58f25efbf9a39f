// The jobs that the page watches, across views. Owns the event streams: a browser opens at most six connections to
// a host, so two jobs are streamed at a time and the others wait.

import { follow, get } from "./api.js";

const STREAMS = 2;
const TRY_AGAIN_MS = 5000;
const OVER = new Set(["succeeded", "failed", "cancelled"]);

export const isOver = (job) => OVER.has(job.state);

/** id → { job, name, lost, following }, in the order in which they were added. */
const watched = new Map();
const listeners = new Set();

export const jobs = () => [...watched.values()];

/** Calls the listener on every change until the signal is aborted. */
export function listen(listener, signal) {
  listeners.add(listener);
  signal.addEventListener("abort", () => listeners.delete(listener));
}

function tell(entry) {
  for (const listener of listeners) listener(entry);
}

/** Starts watching a job; `name` is its title on the card. */
export function watch(job, name) {
  const entry = watched.get(job.id) ?? { job, name, following: null };
  entry.job = { ...entry.job, ...job };
  if (name) entry.name = name;
  watched.set(job.id, entry);
  tell(entry);
  next();
  return entry;
}

/** Updates a watched job after an action on this page. */
export function changed(job) {
  if (watched.has(job.id)) watch(job);
}

export function forget(id) {
  watched.get(id)?.following?.abort();
  watched.delete(id);
  next();
}

export function forgetAll() {
  for (const id of [...watched.keys()]) forget(id);
}

function next() {
  const open = [...watched.values()];
  let free = STREAMS - open.filter((entry) => entry.following).length;
  for (const entry of open) {
    if (free <= 0) return;
    if (entry.following || isOver(entry.job) || entry.job.state === "awaiting_helper") continue;
    free -= 1;
    stream(entry);
  }
}

async function stream(entry) {
  const stop = new AbortController();
  entry.following = stop;
  try {
    await follow(entry.job.id, (kind, { data }) => {
      if (kind === "state") entry.job = { ...entry.job, state: data.state, phase: data.state === "running" ? entry.job.phase : null };
      // The last event before the write has fewer numbers than the previous ones, which are kept.
      if (kind === "progress") entry.job = { ...entry.job, phase: data.phase, progress: { ...entry.job.progress, ...data.progress } };
      if (entry.job.state === "awaiting_helper") stop.abort();
      tell(entry);
    }, stop.signal);
  } catch (error) {
    if (error.name !== "AbortError" && !stop.signal.aborted) entry.lost = error;
  }
  try {
    const progress = entry.job.progress;
    entry.job = await get(`/v1/jobs/${entry.job.id}`);
    entry.job.progress = { ...progress, ...entry.job.progress };
    entry.lost = null;
  } catch (error) {
    entry.lost = error;
  }
  entry.following = null;
  if (!watched.has(entry.job.id)) return;
  tell(entry);
  if (entry.lost) setTimeout(next, TRY_AGAIN_MS);
  else next();
}
