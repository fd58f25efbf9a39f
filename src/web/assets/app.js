// The frame: routing, titles and focus. A view is loaded when it is first needed; it exports
// `show(main, route, signal)` and stops its work when the signal is aborted.

import { access, get } from "./api.js";
import { h, put } from "./dom.js";
import { forgetAll } from "./live.js";
import { problem } from "./parts.js";
import { openSettings } from "./settings.js";

const VIEWS = {
  library: ["Library", (route) => (route.id ? import("./source.js") : import("./library.js"))],
  hierarchy: ["Hierarchy", () => import("./hierarchy.js")],
  ask: ["Ask", () => import("./ask.js")],
  jobs: ["Jobs", (route) => (route.id ? import("./job.js") : import("./jobs.js"))],
  status: ["Status", () => import("./status.js")],
};

const main = document.getElementById("main");
let stop = new AbortController();
let shownView = "";
let visited = false;

/** Parses `#/library/ID/versions?from=1` into `{view, id, part, get}`. */
function read() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, id, part] = path.split("/").map(decodeURIComponent);
  const parameters = new URLSearchParams(search);
  return { view: VIEWS[view] ? view : "library", id: id || "", part: part || "", get: (name) => parameters.get(name) };
}

async function show() {
  // A link within the page, such as the skip link, is not a route.
  if (location.hash && !location.hash.startsWith("#/")) return;
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  const route = read();
  const [name, module] = VIEWS[route.view];
  for (const link of document.querySelectorAll(".views a")) {
    if (link.getAttribute("href") === `#/${route.view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name} · memoir`;
  const place = h("div.view", { class: `view-${route.view}` });
  const again = shownView === `${route.view}/${route.id}`;
  shownView = `${route.view}/${route.id}`;
  try {
    const view = await module(route);
    if (signal.aborted) return;
    put(main, place);
    if (!again) scrollTo(0, 0);
    await view.show(place, route, signal);
    // The clicked element is gone, so screen readers continue at the title.
    if (visited && !again && document.activeElement === document.body) place.querySelector("h1")?.focus({ preventScroll: true });
    visited = true;
  } catch (error) {
    if (error.name !== "AbortError" && !signal.aborted) put(main, h("div.view", problem(error)));
  }
}

function nameSpace() {
  document.getElementById("place-name").textContent = access.space || (access.key ? "the key’s space" : "default");
  document.getElementById("place").classList.toggle("with-key", Boolean(access.key));
}

async function about() {
  try {
    const info = await get("/v1/info");
    put(document.getElementById("about"), `memoir ${info.version} · ${info.database.engine} · ${info.llm.model}`);
  } catch (error) {
    if (error.code === "unauthorized" || error.status === 401) openSettings(startAnew, error);
  }
}

function start() {
  nameSpace();
  about();
  show();
}

/** Forgets the jobs of the previous space. */
function startAnew() {
  forgetAll();
  start();
}

document.getElementById("place").addEventListener("click", () => openSettings(startAnew));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// A file dropped outside the drop zone must not replace the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());
addEventListener("hashchange", show);
start();
