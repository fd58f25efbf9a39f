// Keeps the focus when the focused element is drawn again or was busy: without it, the keyboard would start anew at
// the top of the page. If the element is gone, the focus goes to the heading of the nearest place that is left.

const WAIT_MS = 700;
const CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex]";
const main = document.getElementById("main");
let last = null;
let timer = 0;

const sign = (element) => [element.getAttribute("role"), element.getAttribute("href"), element.getAttribute("name"),
  element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent].join("|");

const like = (element) => [...main.querySelectorAll(element.localName)].filter((other) => sign(other) === sign(element));

function places(element) {
  const all = [];
  for (let place = element.parentElement; place && place !== main; place = place.parentElement) all.push(place);
  return all;
}

export function forgetFocus() {
  last = null;
}

function find() {
  if (last.element.isConnected) return last.element.disabled || !last.element.checkVisibility() ? null : last.element;
  const same = like(last.element);
  return same[last.nth] ?? same.at(-1);
}

function instead() {
  const place = last.places.find((other) => other.isConnected && other.checkVisibility()) ?? main;
  const heading = place.querySelector("h1, h2, h3, h4");
  if (heading) heading.tabIndex = -1;
  const control = [...place.querySelectorAll(CONTROLS)].find((other) => !other.disabled && other.checkVisibility());
  return heading ?? control ?? main;
}

function restore(now) {
  clearTimeout(timer);
  if (!last || document.activeElement !== document.body || document.querySelector("dialog[open]")) return;
  const target = find() ?? (now && !last.element.disabled ? instead() : null);
  if (target) target.focus({ preventScroll: true });
  else timer = setTimeout(restore, WAIT_MS, true);
}

document.addEventListener("focusin", ({ target }) => {
  if (target.closest("dialog")) return;
  last = target !== main && main.contains(target) ? { element: target, nth: like(target).indexOf(target), places: places(target) } : null;
});
// Whoever clicks beside the controls wants no focus.
document.addEventListener("pointerdown", ({ target }) => {
  if (!target.closest(`${CONTROLS}, label, dialog`)) last = null;
});
new MutationObserver(() => restore(false)).observe(document.body, { attributeFilter: ["disabled", "hidden"], childList: true, subtree: true });
