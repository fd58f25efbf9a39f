// Small components that all views share: problems, toasts, pagination, switches, badges, dialogues, copying.

import { Problem } from "./api.js";
import { h, put } from "./dom.js";

/** Shows a problem document: what happened, and what to do about it. */
export function problem(error, { compact = false } = {}) {
  if (!(error instanceof Problem) && !error?.detail) {
    console.error(error);
    error = { detail: "Something went wrong on this page.", remediation: "Reload it. If the error persists, report what you did." };
  }
  return h("div.problem", { role: "alert", class: compact ? "compact" : "" },
    h("p.problem-detail", sentence(error.detail)),
    error.remediation && h("p.problem-help", error.remediation),
    error.request_id && !compact && h("p.problem-id", "Request ", h("code", error.request_id)));
}

/** Capitalises a detail, which the service writes in lower case for its log lines. A leading name stays as it is. */
export function sentence(text) {
  const trimmed = (text ?? "").trim();
  const whole = /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
  return /^[a-z]+[\s,;]/.test(whole) ? whole.charAt(0).toUpperCase() + whole.slice(1) : whole;
}

/** How to use a model that was noticed on this machine, while the embedded model is used. */
export const localModels = (info) => info.llm.local_models.map((found) => h("p.muted", sentence(found.how_to_use)));

/** A short message that disappears on its own. */
export function toast(message, kind = "") {
  const item = h("div.toast", { class: kind }, message);
  document.getElementById("toasts").append(item);
  setTimeout(() => item.remove(), kind === "bad" ? 9000 : 4000);
}

/** Tells a screen reader what happened, in few words; what is shown says the rest. */
export function say(words) {
  const place = document.getElementById("said");
  // The same words again are a change only if they were gone.
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = words; });
}

/** Runs an action once at a time. The button is not disabled, because it would lose the focus. */
export async function whileBusy(button, action) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    await action();
  } finally {
    button.removeAttribute("aria-busy");
  }
}

export const failed = (error) => {
  if (error.name !== "AbortError") toast([sentence(error.detail ?? error.message), error.remediation].filter(Boolean).join(" "), "bad");
};

/** Shows the result of a promise, or its problem. The caller's styles reserve the space. */
export async function load(place, promise, show) {
  place.setAttribute("aria-busy", "true");
  try {
    const value = await promise;
    put(place, show(value));
  } catch (error) {
    if (error.name !== "AbortError") put(place, problem(error));
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/** "Show more" below a list that has a next page. `fetchPage(cursor)` returns `{items, next_cursor}`. */
export function paged(list, fetchPage, row, empty) {
  const foot = h("div.more");
  const note = h("p.sr", { role: "status" });
  let shown = 0;
  async function next(cursor) {
    put(foot, h("span.muted", "Loading…"));
    try {
      const page = await fetchPage(cursor);
      const rows = page.items.map(row);
      list.append(...rows);
      shown += rows.length;
      if (cursor) {
        note.textContent = `${rows.length} more`;
        rows[0]?.querySelector("a, button")?.focus();
      }
      const more = page.next_cursor && h("button", { type: "button", onclick: () => next(page.next_cursor) }, "Show more");
      put(foot, more, shown === 0 && empty, note);
    } catch (error) {
      if (error.name !== "AbortError") put(foot, problem(error));
    }
  }
  return { foot, start: () => { list.replaceChildren(); shown = 0; return next(undefined); } };
}

const STATES = {
  queued: ["Queued", "wait"], running: ["Running", "run"], awaiting_helper: ["Needs a helper", "you"],
  succeeded: ["Done", "good"], failed: ["Failed", "bad"], cancelled: ["Cancelled", "off"],
};

export const stateName = (state) => (STATES[state] ?? [state])[0];

export function badge(state) {
  const [name, kind] = STATES[state] ?? [state, ""];
  return h("span.badge", { class: kind }, name);
}

/** A switch that takes effect immediately. `change(on)` returns a promise; the switch is busy until it resolves. */
export function toggle(label, on, change) {
  const button = h("button.switch", { type: "button", role: "switch", "aria-checked": String(on), "aria-label": label },
    h("span.knob", { "aria-hidden": "true" }));
  button.addEventListener("click", async () => {
    const next = button.getAttribute("aria-checked") !== "true";
    button.setAttribute("aria-busy", "true");
    try {
      const now = await change(next);
      button.setAttribute("aria-checked", String(now ?? next));
    } catch (error) {
      failed(error);
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
  return button;
}

/** A form field: the label, the input, a hint, and space for its error. */
export function field(label, input, { hint, name } = {}) {
  const id = `f${field.next += 1}`;
  input.id = id;
  const error = h("p.field-error", { id: `${id}e`, "data-for": name });
  const about = hint && h("p.hint", { id: `${id}h` }, hint);
  input.setAttribute("aria-describedby", [about && `${id}h`, `${id}e`].filter(Boolean).join(" "));
  input.addEventListener("input", () => {
    put(error);
    input.removeAttribute("aria-invalid");
  });
  return h("div.field", h("label", { for: id }, label), input, about, error);
}
field.next = 0;

/** Shows each error of a problem under its field and returns those without a field in this form. */
export function showFieldErrors(form, errors = []) {
  const left = [];
  for (const place of form.querySelectorAll(".field-error")) {
    put(place);
    place.parentElement.querySelector("input, textarea, select")?.removeAttribute("aria-invalid");
  }
  let first = null;
  for (const { field: name, message } of errors) {
    // `tags[2]` belongs to the field `tags`, `contextual_helper.date` to `date`.
    const plain = name.split("[")[0].split(".").pop();
    const place = form.querySelector(`.field-error[data-for="${CSS.escape(plain)}"]`);
    if (!place) {
      left.push(`${name}: ${message}`);
      continue;
    }
    put(place, sentence(message));
    const input = place.parentElement.querySelector("input, textarea, select");
    input?.setAttribute("aria-invalid", "true");
    first ??= input;
  }
  first?.focus();
  return left;
}

/** A dialogue that closes with its buttons or Escape and restores the focus. */
export function dialog(title, body) {
  const box = h("dialog.box", { "aria-label": title },
    h("div.box-head", h("h2", title),
      h("button.quiet.icon", { type: "button", "aria-label": "Close", onclick: () => box.close() }, "×")),
    body);
  const before = document.activeElement;
  box.addEventListener("close", () => {
    box.remove();
    before?.focus?.();
  });
  document.body.append(box);
  box.showModal();
  return box;
}

/** Asks for confirmation before an action that cannot be undone. */
export function confirm(title, words, action) {
  return new Promise((resolve) => {
    let answer = false;
    const box = dialog(title, h("div", h("p", { id: "confirm-words" }, words), h("div.row.end",
      h("button", { type: "button", onclick: () => box.close() }, "Cancel"),
      h("button.danger", { type: "button", onclick: () => { answer = true; box.close(); } }, action))));
    box.setAttribute("aria-describedby", "confirm-words");
    box.querySelector(".row button").focus();
    box.addEventListener("close", () => resolve(answer));
  });
}

export function copyButton(text, label = "Copy") {
  const button = h("button.small", { type: "button" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy manually";
    }
    setTimeout(() => { button.textContent = label; }, 1600);
  });
  return button;
}

/** A category path, one element per name. */
export const categoryPath = (names) => h("span.category-path", names.map((name, index) => [index > 0 && [" ", h("span.sep", "›"), " "], h("span", name)]));

/** A name and a value in a list of facts. */
export const fact = (name, value) => h("div.fact", h("dt", name), h("dd", value));

export const facts = (...pairs) => h("dl.facts", pairs.filter(Boolean).map(([name, value]) => fact(name, value)));

export const head = (title, words, ...actions) => h("div.head", h("div", h("h1", { tabindex: "-1" }, title), words && h("p.lead", words)), actions.length > 0 && h("div.row", actions));

/**
 * A text with the found words marked. Positions count characters, and the browser counts UTF-16 units. With `most`,
 * only a stretch around the first mark is shown.
 */
export function marked(text, highlights = [], most = Infinity) {
  const characters = [...text];
  let from = 0;
  let to = characters.length;
  if (to > most) {
    from = Math.max(0, Math.min((highlights[0]?.start ?? 0) - Math.floor(most / 4), to - most));
    to = from + most;
    // Not within a word, unless there is no space nearby.
    for (let back = 0; back < 24 && from > 0; back += 1) if (/\s/.test(characters[from - 1 + back] ?? "")) { from += back; break; }
    for (let back = 0; back < 24; back += 1) if (to === characters.length || /\s/.test(characters[to - back])) { to -= back; break; }
  }
  const parts = [from > 0 && "…"];
  let at = from;
  for (const { start, end } of highlights) {
    if (start < at || end > to) continue;
    parts.push(characters.slice(at, start).join(""), h("mark.hit", characters.slice(start, end).join("")));
    at = end;
  }
  parts.push(characters.slice(at, to).join(""), to < characters.length && "…");
  return parts;
}
