// Ingesting text: dropped or chosen files, or pasted text. Each becomes a job that the page watches.

import { get, post } from "./api.js";
import { bytes, h, put, words } from "./dom.js";
import { watch } from "./live.js";
import { dialog, failed, field, problem, sentence, showFieldErrors, whileBusy } from "./parts.js";

const ACCEPTED = ".txt,.md,.json,.yml,.yaml";

/** Above this number of files, nobody is asked about each name. */
const MAX_ASKED = 100;

const pathOf = (folder, file) => `${folder}/${file.name}`.replace(/\/+/g, "/");

/** The source that each name becomes a version of, if the user says so; null if nothing is to be sent. */
async function versionsOf(named) {
  if (named.length > MAX_ASKED) return new Map();
  const { ask, othersNamed } = await import("./same-name.js");
  const conflicts = new Map();
  for (const [name, path] of named) {
    const others = await othersNamed(name, path);
    if (others.length) conflicts.set(name, others);
  }
  return conflicts.size ? ask(conflicts) : new Map();
}

/** Sends files two at a time and shows each problem next to the file's name. */
async function sendFiles(files, { folder, tags, describe }, trouble) {
  const versions = await versionsOf(files.map((file) => [file.name, pathOf(folder, file)]));
  if (!versions) return;
  const limit = await get("/v1/info").then((info) => info.limits.max_body_bytes, () => Infinity);
  const queue = [...files];
  const refuse = (file, error) => trouble.append(h("div.refused", h("strong", file.name), problem(error, { compact: true })));
  async function sender() {
    for (let file = queue.shift(); file; file = queue.shift()) {
      if (file.size === 0) {
        refuse(file, { detail: "The file is empty.", remediation: "Choose a file that contains text." });
        continue;
      }
      if (file.size > limit - 4096) {
        refuse(file, { detail: `The file has ${bytes(file.size)}; the limit is ${bytes(limit)}.`, remediation: "Split it into smaller files." });
        continue;
      }
      const place = versions.has(file.name) ? { source_id: versions.get(file.name) } : { path: pathOf(folder, file) };
      const metadata = { ...place, mtime: new Date(file.lastModified).toISOString() };
      if (tags.length) metadata.tags = tags;
      if (describe) metadata.auto_source_identification = false;
      const form = new FormData();
      form.append("file", file);
      form.append("metadata", JSON.stringify(metadata));
      try { watch(await post("/v1/ingestions", undefined, { form }), file.name); } catch (error) { refuse(file, inWords(error)); }
    }
  }
  await Promise.all([sender(), sender()]);
}

/** The problem of a file, for the person who chose it and not for a program. */
function inWords(error) {
  if (error.status === 415) return { detail: "memoir cannot read this kind of file.", remediation: `Convert the file to text (${ACCEPTED.replaceAll(",", ", ")}), or paste its text.` };
  const wrong = (error.errors ?? []).map(({ field: name, message }) => `${name.split(".").pop()} ${message}`);
  return wrong.length ? { ...error, detail: `The file was not accepted: ${wrong.join("; ")}`, remediation: "Change the file, or its folder and tags below, and try again." } : error;
}

/** The panel for files and pasted text. */
export function addPanel() {
  const folder = h("input", { type: "text", value: "/", spellcheck: "false" });
  const tags = h("input", { type: "text", placeholder: "work, notes", autocomplete: "off" });
  const describe = h("input", { type: "checkbox" });
  const trouble = h("div.add-trouble");
  const chosen = h("input.sr", { type: "file", multiple: true, accept: ACCEPTED, tabindex: "-1", "aria-hidden": "true" });
  const send = (files) => {
    put(trouble);
    const where = folder.value.trim() || "/";
    if (!where.startsWith("/")) {
      put(trouble, problem({ detail: "The folder must begin with a slash.", remediation: "For example: /notes" }, { compact: true }));
      return;
    }
    sendFiles(files, { folder: where, tags: words(tags.value), describe: describe.checked }, trouble).catch(failed);
  };
  chosen.addEventListener("change", () => {
    send([...chosen.files]);
    chosen.value = ""; // So that the same file can be chosen again.
  });
  const zone = h("div.drop",
    h("p.drop-words", "Drop text files here"),
    h("p.muted", ".txt .md .json .yml .yaml"),
    h("div.row.centre", h("button", { type: "button", onclick: () => chosen.click() }, "Choose files"),
      h("button", { type: "button", onclick: () => pasteDialog({ describe: describe.checked, startTags: tags.value }) }, "Paste text")),
    chosen);
  for (const kind of ["dragenter", "dragover"]) zone.addEventListener(kind, (event) => { event.preventDefault(); zone.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) zone.addEventListener(kind, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    send([...event.dataTransfer.files]);
  });
  const panel = h("section.panel.add", { "aria-label": "Ingest text" },
    h("h2", "Ingest text"), zone,
    h("details.add-more", h("summary", "Folder, tags, helper"),
      field("Folder", folder, { hint: "The same path again adds a version to the source." }),
      field("Tags", tags, { hint: "Separated by commas." }),
      h("label.check", describe, h("span", "I write the helpers myself"))),
    trouble);
  /** Files that are dropped elsewhere in the view count too. */
  panel.takeFilesOf = (view) => {
    view.addEventListener("dragover", () => zone.classList.add("over"));
    view.addEventListener("dragleave", (event) => { if (!view.contains(event.relatedTarget)) zone.classList.remove("over"); });
    view.addEventListener("drop", (event) => {
      zone.classList.remove("over");
      if (event.defaultPrevented || !event.dataTransfer.files.length) return;
      event.preventDefault();
      send([...event.dataTransfer.files]);
      panel.scrollIntoView({ block: "nearest" });
    });
  };
  return panel;
}

/** A file name that tells a pasted text from others: `Knee doctor` becomes `knee-doctor.txt`. */
function fileName(title) {
  const words = title.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.length ? `${words.slice(0, 8).join("-").slice(0, 60)}.txt` : undefined;
}

/** Pasted text, or a new version of an existing source. */
export function pasteDialog({ describe = false, startTags = "", source, start = "" } = {}) {
  const text = h("textarea.paste", { rows: "12", name: "text", value: start });
  const title = h("input", { type: "text", name: "title", autocomplete: "off" });
  const path = h("input", { type: "text", name: "path", placeholder: "/notes/cape.md", spellcheck: "false", autocomplete: "off" });
  const tags = h("input", { type: "text", name: "tags", value: startTags, placeholder: "work, notes", autocomplete: "off" });
  const own = h("input", { type: "checkbox", checked: describe });
  const trouble = h("div");
  const go = h("button.primary", { type: "submit" }, source ? "Ingest the new version" : "Ingest");
  const form = h("form", { novalidate: true }, trouble,
    field("Text", text, { name: "text" }),
    !source && h("div.pair",
      field("Title", title, { name: "title", hint: "If empty, taken from the text." }),
      field("Path", path, { name: "path", hint: "The same path again adds a version." })),
    !source && field("Tags", tags, { name: "tags", hint: "Separated by commas." }),
    !source && h("label.check", own, h("span", "I write the helper myself")),
    h("div.row.end", h("button", { type: "button", onclick: () => box.close() }, "Cancel"), go));
  const ingest = async () => {
    const body = { text: text.value };
    if (source) body.source_id = source.id;
    if (title.value.trim()) body.title = title.value.trim();
    const firstLine = text.value.trim().split("\n")[0].replace(/^#+\s*/, "").slice(0, 60);
    if (path.value.trim()) body.path = path.value.trim();
    else if (!source) body.filename = fileName(title.value) ?? fileName(firstLine);
    if (words(tags.value).length) body.tags = words(tags.value);
    if (own.checked) body.auto_source_identification = false;
    put(trouble);
    try {
      const versions = body.filename ? await versionsOf([[body.filename]]) : new Map();
      if (!versions) return;
      if (versions.has(body.filename)) Object.assign(body, { source_id: versions.get(body.filename), filename: undefined });
      watch(await post("/v1/ingestions", body), source?.filename ?? (title.value.trim() || path.value.trim().split("/").pop() || firstLine));
      box.close();
    } catch (error) {
      const left = showFieldErrors(form, error.errors);
      if (!error.errors?.length || left.length) put(trouble, problem({ ...error, detail: left.map(sentence).join(" ") || error.detail }, { compact: true }));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    whileBusy(go, ingest);
  });
  const box = dialog(source ? `New version of ${source.filename}` : "Paste text", form);
  box.classList.add("wide");
  text.focus();
}
