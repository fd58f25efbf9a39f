// The frame: routing, titles and focus. A view is loaded when it is first needed; it exports
// `show(main, route, signal)` and stops its work when the signal is aborted. A view that can follow a change of its
// own route without being drawn again sets `main.follow(route)`, which returns whether it did.

import { access, get } from "./api.js";
import { h, put } from "./dom.js";
import { forgetFocus } from "./keep-focus.js";
import { forgetAll } from "./live.js";
import { problem, toast } from "./parts.js";
import { openSettings } from "./settings.js";

const VIEWS = {
  library: ["Library", (route) => (route.id ? import("./source.js") : import("./library.js"))],
  hierarchy: ["Hierarchy", (route) => (route.id === "review" ? import("./proposals.js") : import("./hierarchy.js"))],
  ask: ["Ask", () => import("./ask.js")],
  conversations: ["Conversations", (route) => (route.id ? import("./thread.js") : import("./conversations.js")), "assets/more.css"],
  vocabulary: ["Vocabulary", () => import("./vocabulary.js"), "assets/more.css"],
  policy: ["Policy", () => import("./policy.js"), "assets/more.css"],
  workbench: ["Workbench", () => import("./workbench.js"), "assets/more.css"],
  jobs: ["Jobs", (route) => (route.id ? import("./job.js") : import("./jobs.js")), "assets/more.css"],
  status: ["Status", () => import("./status.js"), "assets/more.css"],
};

const main = document.getElementById("main");
let stop = new AbortController();
let shownView = "";
let visited = false;
let shown = null;

/** Loads a stylesheet once, before the view that needs it is drawn. */
const styles = new Map();
function style(href) {
  if (!styles.has(href)) {
    styles.set(href, new Promise((resolve) => {
      document.head.append(h("link", { rel: "stylesheet", href, onload: resolve, onerror: resolve }));
    }));
  }
  return styles.get(href);
}

/** Parses `#/library/ID/versions?from=1` into `{view, id, part, get}`. */
function read() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, id, part] = path.split("/").map(decodeURIComponent);
  const parameters = new URLSearchParams(search);
  return { view: VIEWS[view] ? view : "library", id: id || "", part: part || "", get: (name) => parameters.get(name) };
}

/** On narrow screens the list of views scrolls. */
function showCurrent() {
  const link = document.querySelector(".views [aria-current]");
  if (link) link.parentElement.scrollLeft = link.offsetLeft + link.offsetWidth / 2 - link.parentElement.clientWidth / 2;
}

async function show() {
  // A link within the page, such as the skip link, is not a route.
  if (location.hash && !location.hash.startsWith("#/")) return;
  const route = read();
  if (shown?.view === route.view && shown.place.isConnected && shown.place.follow?.(route)) return;
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  const [name, module, css] = VIEWS[route.view];
  for (const link of document.querySelectorAll(".views a")) {
    if (link.getAttribute("href") === `#/${route.view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  showCurrent();
  document.title = `${name} · memoir`;
  const place = h("div.view", { class: `view-${route.view}` });
  const again = shownView === `${route.view}/${route.id}`;
  shownView = `${route.view}/${route.id}`;
  if (!again) forgetFocus();
  try {
    const [view] = await Promise.all([module(route), css && style(css)]);
    if (signal.aborted) return;
    shown = { view: route.view, place };
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
export function startAnew() {
  forgetAll();
  start();
}

document.getElementById("place").addEventListener("click", () => openSettings(startAnew));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// A file dropped outside the drop zone must not replace the page.
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  if (!event.defaultPrevented && event.dataTransfer?.files.length) toast("Drop text files on the Library, and chat exports on Conversations.", "bad");
  event.preventDefault();
});
addEventListener("hashchange", show);
addEventListener("resize", showCurrent);
start();
