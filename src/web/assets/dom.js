// Builds the page: elements, text, numbers. Guarantees that text is never interpreted as HTML: everything is
// inserted as text nodes and attributes, and no other module creates elements.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Creates an element: `h("p.note", {onclick}, "text", child)`. Properties that start with `on` are listeners. */
export function h(spec, properties, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  if (properties instanceof Node || typeof properties !== "object" || Array.isArray(properties)) {
    return fill(element, [properties, ...children]);
  }
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  return fill(element, children);
}

/** Creates an SVG element. */
export function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  return fill(element, children);
}

/** Replaces the children of an element. */
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, children);
}

const whole = new Intl.NumberFormat("en");

/** 12,345 */
export const number = (value) => (value === null || value === undefined ? "–" : whole.format(value));

/** "1 chunk", "2 chunks" */
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(value < 10240 ? 1 : 0)} KiB`;
  return `${(value / 1048576).toFixed(1)} MiB`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 10) return `${Math.max(0, value).toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60000) return `${(value / 1000).toFixed(1)} s`;
  return `${Math.floor(value / 60000)} min ${Math.round((value % 60000) / 1000)} s`;
}

export function dollars(value) {
  if (value === null || value === undefined) return "no price";
  if (value === 0) return "$0";
  return value < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toFixed(2)}`;
}

const dateTime = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const year = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** A short time, with the full date on hover. */
export function when(text) {
  if (!text) return h("span.muted", "–");
  const moment = new Date(text);
  const now = new Date();
  const form = moment.toDateString() === now.toDateString() ? clock : moment.getFullYear() === now.getFullYear() ? day : year;
  return h("time", { datetime: text, title: dateTime.format(moment) }, form.format(moment));
}

export const whenWhole = (text) => h("time", { datetime: text }, dateTime.format(new Date(text)));

/** "a, b ,c" as a list without duplicates. */
export const words = (text) => [...new Set(text.split(",").map((word) => word.trim()).filter(Boolean))];

/** The first words of a text on one line, without the signs of headings, and not cut within a word. */
export function firstWords(text, most) {
  const plain = text.slice(0, most * 4).replace(/^\s*#{1,6}\s+(.*)$/gm, "$1 ·").replace(/\s+/g, " ").trim();
  if (plain.length <= most && text.length <= most * 4) return plain;
  const cut = plain.slice(0, most + 1);
  const end = cut.lastIndexOf(" ");
  return `${cut.slice(0, end > most / 2 ? end : most).trimEnd()}…`;
}

/** Debounces: only the last of several quick calls runs. */
export function settle(action, delay) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), delay);
  };
}
