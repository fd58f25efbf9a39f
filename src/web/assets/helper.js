// The description of a document (its contextual helper): four fields, what they come to, and a yes.
// One form for a job that waits and for a document that is there.

import { call, get, post } from "./api.js";
import { count, h, put } from "./dom.js";
import { dialog, failed, field, problem, showFieldErrors } from "./parts.js";

const FIELDS = [
  ["author", "Author", "Who made it. “unknown” is an answer."],
  ["date", "Date", "When it was made, like 2025-01-31. “unknown” is an answer."],
  ["topic", "Topic", "What it is about, in a few words."],
];

/**
 * Fields → preview → confirm. `preview(fields)` gives `{preview, token_count}`, `confirm(fields)` ends it.
 * `start` fills the fields in, `extra()` gives a further button for each step.
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
    h("h3", { tabindex: "-1" }, "It will read"), shown, tokens,
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
      shown.textContent = result.preview || "Nothing: all four are unknown.";
      tokens.textContent = `${count(result.token_count, "token")} in every prompt that speaks of this document`;
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

/** The dialogue of a job that waits for its description. `done(job)` gets the job as it is then. */
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
    confirmLabel: "Confirm and go on",
    extra: cancel,
  });
  const box = dialog("Describe the document", h("div",
    h("p.muted", "One paragraph that stands in every prompt that speaks of it. Filing goes on once you confirm."), form));
  box.querySelector("input").focus();
}
