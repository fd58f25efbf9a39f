// The API reference: lists every operation of /openapi.json, describes it, and sends a request to it. What an
// operation contains is drawn when it is opened, because the document is large and some schemas contain themselves.

import { access, addressOf, get, headersWith, query } from "./api.js";
import { count, h, put } from "./dom.js";
import { field, head, load, whileBusy } from "./parts.js";
import { schemaView, exampleOf, resolver } from "./docs-schema.js";
import { openSettings } from "./settings.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const KINDS = { get: "", post: "good", put: "wait", patch: "wait", delete: "bad" };

/** The text of a description: paragraphs, lists that start with "- ", and code in backticks. */
function prose(text) {
  const spans = (line) => line.split("`").map((part, at) => (at % 2 ? h("code", part) : part));
  const blocks = (text ?? "").split(/\n\s*\n/).filter(Boolean);
  return blocks.map((block) => {
    const items = block.split(/(?:^|\n)- /);
    const intro = items.shift();
    return h("div.prose", intro && h("p", spans(intro)), items.length > 0 && h("ul", items.map((item) => h("li", spans(item)))));
  });
}

/** Draws the content of a `details` element when it is first opened. */
function lazily(details, draw) {
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(draw());
  });
  return details;
}

function parameterList(parameters, resolve) {
  if (!parameters.length) return null;
  return h("div", h("h3", "Parameters"), h("dl.schema", parameters.map((parameter) => [
    h("dt", h("code", parameter.name), " ", h("span.muted", `${parameter.in}${parameter.required ? ", required" : ""}`)),
    h("dd", prose(parameter.description), schemaView(parameter.schema, resolve, prose, lazily)),
  ])));
}

function contentView(content, resolve) {
  return Object.entries(content ?? {}).map(([type, { schema }]) => h("div",
    h("p.muted", type),
    schema && schemaView(schema, resolve, prose, lazily)));
}

/** The responses; statuses with the same one, such as a problem document, share an entry. */
function responseList(responses, resolve) {
  const statuses = Map.groupBy(Object.entries(responses), ([status, response]) => response.$ref ?? status);
  return h("div", h("h3", "Responses"), h("dl.schema", [...statuses.values()].map((same) => {
    const { description, content, headers } = resolve(same[0][1]);
    const draw = () => h("div", Object.entries(headers ?? {}).map(([name, header]) => h("p", h("code", name), " ", header.description)), contentView(content, resolve));
    return [
      h("dt", h("code", same.map(([status]) => status).join(", "))),
      h("dd", prose(description), (content || headers) && lazily(h("details", h("summary", "Content")), draw)),
    ];
  })));
}

/** A form that sends a request and shows the response. */
function tryIt(method, path, operation, parameters, resolve) {
  const inputs = parameters.map((parameter) => {
    // The space is chosen for all operations.
    if (parameter.name === "X-Memoir-Space") return null;
    const input = h("input", { type: "text", spellcheck: "false", autocomplete: "off", required: parameter.required });
    return { parameter, input };
  }).filter(Boolean);
  const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const isForm = type === "multipart/form-data";
  const sample = type && !isForm && exampleOf(content, resolve);
  const body = isForm ? h("input", { type: "file" })
    : type && h("textarea.body", { spellcheck: "false", value: typeof sample === "string" ? sample : JSON.stringify(sample, null, 2) });
  const answer = h("div", { role: "status" });

  async function send() {
    const of = (kind) => inputs.filter(({ parameter, input }) => parameter.in === kind && input.value !== "")
      .map(({ parameter, input }) => [parameter.name, input.value]);
    const filled = of("path").reduce((text, [name, value]) => text.replace(`{${name}}`, encodeURIComponent(value)), path);
    const headers = headersWith(Object.fromEntries(of("header")));
    let payload;
    if (isForm) {
      payload = new FormData();
      if (body.files[0]) payload.append("file", body.files[0]);
    } else if (type && body.value.trim()) {
      headers.set("Content-Type", type);
      payload = body.value;
    }
    try {
      const response = await fetch(addressOf(query(filled, Object.fromEntries(of("query")))), { method: method.toUpperCase(), headers, body: payload });
      const text = await response.text();
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON */ }
      put(answer, h("h3", `${response.status} ${response.statusText}`),
        h("p.muted", [...response.headers].map(([name, value]) => h("span.path", `${name}: ${value}`))),
        h("pre.sample", { tabindex: "0" }, shown || "No content."));
    } catch (error) {
      put(answer, h("p.bad-words", `The request failed: ${error.message}`));
    }
  }

  const button = h("button.primary", { type: "submit" }, "Send");
  const form = h("form",
    h("h3", "Try it"),
    h("div.pair", inputs.map(({ parameter, input }) => field(`${parameter.name} (${parameter.in})`, input))),
    body && field(isForm ? "File" : "Body", body),
    h("div.row", button, h("span.muted", `Space ${access.space || "default"}, ${access.key ? "with a key" : "without a key"}`)),
    answer);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    whileBusy(button, send);
  });
  return form;
}

function operationView(method, path, operation, resolve) {
  const draw = () => {
    const parameters = (operation.parameters ?? []).map(resolve);
    return h("div", prose(operation.description),
      parameterList(parameters, resolve),
      operation.requestBody && h("div", h("h3", "Request body"), contentView(operation.requestBody.content, resolve)),
      responseList(operation.responses, resolve),
      tryIt(method, path, operation, parameters, resolve));
  };
  return lazily(h("details.operation", { id: operation.operationId, "data-words": `${method} ${path} ${operation.summary}`.toLowerCase() },
    h("summary", h("span.badge.method", { class: KINDS[method] }, method.toUpperCase()), h("code", path), h("span.muted", operation.summary))), draw);
}

/** The whole reference. */
function reference(api) {
  const resolve = resolver(api);
  const operations = Object.entries(api.paths).flatMap(([path, item]) => METHODS.filter((method) => item[method])
    .map((method) => ({ tag: item[method].tags?.[0], view: operationView(method, path, item[method], resolve) })));
  const groups = (api.tags ?? []).map((tag) => {
    const members = operations.filter((operation) => operation.tag === tag.name).map((operation) => operation.view);
    return h("section", h("h2.group", tag.name), h("p.lead", tag.description), h("div", members));
  });
  const search = h("input", { type: "search", placeholder: "Filter by path or summary", "aria-label": "Filter operations" });
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase().split(/\s+/);
    for (const group of groups) {
      const members = [...group.querySelectorAll(".operation")];
      for (const member of members) member.hidden = !wanted.every((word) => member.dataset.words.includes(word));
      group.hidden = members.every((member) => member.hidden);
    }
  });

  const lead = `${count(operations.length, "operation")} of memoir ${api.info.version}.`;
  return [head("API reference", lead, h("a.button", { href: "openapi.json" }, "OpenAPI document")), prose(api.info.description), search, groups];
}

/** Opens the operation that the address names. */
function openLinked() {
  const linked = document.getElementById(location.hash.slice(1));
  if (!linked?.matches(".operation")) return;
  linked.open = true;
  linked.scrollIntoView();
}

const main = document.getElementById("main");
const draw = () => load(main, get("openapi.json"), reference).then(openLinked);
document.getElementById("place").addEventListener("click", () => openSettings(draw));
addEventListener("hashchange", openLinked);
draw();
