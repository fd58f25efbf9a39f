// The contextual helper of a source: four fields, a preview and a confirmation. One form serves both a waiting job
// and an existing source.

import { call, get, post } from "./api.js";
import { count, h, put } from "./dom.js";
import { dialog, failed, field, problem, showFieldErrors } from "./parts.js";

const FIELDS = [
  ["author", "Author", "Who wrote it, or “unknown”."],
  ["date", "Date", "When it was written, such as 2025-01-31, or “unknown”."],
  ["topic", "Topic", "What it is about, in a few words."],
];

/**
 * Fields, then preview, then confirmation. `preview(fields)` returns `{preview, token_count}`, `confirm(fields)`
 * finishes. `start` holds the initial values, `extra()` returns another button for each step.
 */
export function helperForm({ start = {}, preview, confirm, confirmLabel, extra = () => null }) {
  const inputs = Object.fromEntries(FIELDS.map(([name]) => [name, h("input", { type: "text", name, value: start[name] ?? "", autocomplete: "off" })]));
  inputs.description = h("textarea", { name: "description", rows: "4", value: start.description ?? "" });
  const trouble = h("div");
  const values = () => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
  const shown = h("blockquote.preview");
  const tokens = h("p.muted");
  const yes = h("button.primary", { type: "button" }, confirmLabel);
  const second = h("div.helper-preview", { hidden: true },
    h("h3", { tabindex: "-1" }, "Preview"), shown, tokens,
    h("div.row.end", extra(), h("button", { type: "button", onclick: () => step(false) }, "Edit"), yes));
  const form = h("form.helper-fields", { novalidate: true },
    trouble,
    h("div.pair", FIELDS.slice(0, 2).map(([name, label, hint]) => field(label, inputs[name], { hint, name }))),
    field(FIELDS[2][1], inputs.topic, { hint: FIELDS[2][2], name: "topic" }),
    field("Description", inputs.description, { hint: "What it is, in at most 200 tokens.", name: "description" }),
    h("div.row.end", extra(), h("button.primary", { type: "submit" }, "Preview")));

  function step(isSecond) {
    form.hidden = isSecond;
    second.hidden = !isSecond;
    if (isSecond) second.querySelector("h3").focus();
    else inputs.author.focus();
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    put(trouble);
    try {
      const result = await preview(values());
      showFieldErrors(form, []);
      shown.textContent = result.preview || "Empty: all four fields are unknown.";
      tokens.textContent = `${count(result.token_count, "token")} in every prompt about this source`;
      step(true);
    } catch (error) {
      const left = showFieldErrors(form, error.errors);
      if (!error.errors?.length || left.length) put(trouble, problem(error, { compact: true }));
    }
  });
  yes.addEventListener("click", async () => {
    yes.disabled = true;
    try { await confirm(values()); } catch (error) { failed(error); }
    yes.disabled = false;
  });
  return h("div.helper-form", form, second);
}

/** The dialogue for a job that waits for its helper. `done(job)` receives the updated job. */
export async function describe(job, done) {
  let whole = job;
  try { whole = await get(`/v1/jobs/${job.id}`); } catch (error) { failed(error); return; }
  const cancel = () => h("button", { type: "button", onclick: async () => {
    try {
      done(await post(`/v1/jobs/${job.id}/cancel`));
      box.close();
    } catch (error) { failed(error); }
  } }, "Cancel the job");
  const form = helperForm({
    start: whole.progress?.fields,
    preview: async (fields) => (await call("PUT", `/v1/jobs/${job.id}/helper`, { body: fields })).data,
    confirm: async () => {
      done(await post(`/v1/jobs/${job.id}/helper/confirm`));
      box.close();
    },
    confirmLabel: "Confirm and continue",
    extra: cancel,
  });
  const box = dialog("Write the helper", h("div",
    h("p.muted", "One paragraph that is part of every prompt about this source. Filing continues once you confirm."), form));
  box.querySelector("input").focus();
}
