// The client of the public API. Owns the space and the key (stored in this browser, sent as headers, never part
// of a URL), problem documents, pagination and event streams.

import { h } from "./dom.js";

const stored = (name) => {
  try { return localStorage.getItem(name) ?? ""; } catch { return ""; }
};

const keep = (name, value) => {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch { /* private mode: kept only until the page is closed */ }
};

export const access = { space: stored("memoir.space"), key: stored("memoir.key") };

export function setAccess(space, key) {
  access.space = space;
  access.key = key;
  keep("memoir.space", space);
  keep("memoir.key", key);
}

/** An error as the service reports it. */
export class Problem extends Error {
  constructor(body) {
    super(body.detail);
    Object.assign(this, { code: "", remediation: "", errors: [], context: null, request_id: "", status: 0 }, body);
  }
}

/** The headers of a request, with the space and the key. */
export function headersWith(more) {
  const headers = new Headers(more);
  if (access.space) headers.set("X-Memoir-Space", access.space);
  if (access.key) headers.set("Authorization", `Bearer ${access.key}`);
  return headers;
}

/** URLs are relative, so that the page works behind a proxy under any path. */
export const addressOf = (path) => new URL(path.replace(/^\//, ""), document.baseURI.split("#")[0]);

async function send(method, path, { body, form, headers, signal } = {}) {
  const all = headersWith(headers);
  if (body !== undefined) all.set("Content-Type", "application/json");
  let response;
  try {
    response = await fetch(addressOf(path), {
      method, headers: all, signal, body: form ?? (body === undefined ? undefined : JSON.stringify(body)),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({
      code: "unreachable", title: "No response", detail: "memoir does not respond.",
      remediation: "Check that it is running and that you are connected, then try again.",
    });
  }
  if (response.ok) return response;
  let problem = null;
  try { problem = await response.json(); } catch { /* not from memoir: a proxy's page */ }
  throw new Problem(problem?.detail ? problem : {
    code: "unknown", status: response.status, title: "Error",
    detail: `The response was ${response.status} ${response.statusText}.`.trim(),
    remediation: "It came from something between this page and memoir, such as a proxy.",
  });
}

/** Sends a request and returns the body, parsed as JSON, and the ETag. */
export async function call(method, path, options) {
  const response = await send(method, path, options);
  const data = response.status === 204 ? null : await response.json();
  return { data, etag: response.headers.get("ETag"), status: response.status };
}

export const get = async (path, options) => (await call("GET", path, options)).data;
export const post = async (path, body, options) => (await call("POST", path, { ...options, body })).data;
export const text = async (path, options) => (await send("GET", path, options)).text();

/** A path with query parameters; empty values are omitted. */
export function query(path, parameters) {
  const filled = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return filled.length ? `${path}?${new URLSearchParams(filled)}` : path;
}

/** All pages of a list, fetched one after the other, until `most` items. */
export async function all(path, parameters = {}, most = 20000) {
  const items = [];
  let cursor;
  let page;
  do {
    page = await get(query(path, { ...parameters, limit: 500, cursor }));
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && items.length < most);
  return { ...page, items };
}

/** The events of a response, one after the other: `{id, event, data}`. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = {};
      for (const line of block.split("\n")) {
        const cut = line.indexOf(":");
        if (cut > 0) event[line.slice(0, cut)] = line.slice(cut + 1).trimStart();
      }
      yield { ...event, data: event.data && JSON.parse(event.data) };
    }
  }
}

/**
 * A job's events until it ends. Uses `fetch`, because EventSource cannot send the space or the key.
 * A broken connection resumes after the last event received.
 */
export async function follow(id, onEvent, signal) {
  let last = "";
  for (let tries = 0; tries < 6; tries += 1) {
    try {
      const headers = last ? { "Last-Event-ID": last } : {};
      for await (const event of events(await send("GET", `/v1/jobs/${id}/events`, { headers, signal }))) {
        tries = 0;
        if (event.id) last = event.id;
        if (event.data) onEvent(event.event ?? "message", event.data);
      }
      return;
    } catch (error) {
      if (signal?.aborted || (error instanceof Problem && error.status >= 400 && error.status < 500)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500 * 2 ** tries));
    }
  }
}

/** Sends a request whose response comes in steps. `on` has a listener for each kind; the last step is returned. */
export async function stream(path, body, on, signal) {
  const response = await send("POST", path, { body, signal, headers: { Accept: "text/event-stream" } });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return response.json();
  for await (const { event, data } of events(response)) {
    if (event === "problem") throw new Problem(data);
    if (event === "result") return data;
    on[event]?.(data);
  }
  throw new Problem({ code: "unreachable", detail: "The response ended before it was complete.", remediation: "Try again." });
}

/** Saves the response as a file. */
export async function download(path, body, name) {
  const blob = await (await send("POST", path, { body })).blob();
  const href = URL.createObjectURL(blob);
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}
