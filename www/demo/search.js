// The page "Search by meaning". Connects its controls to the worker that computes.

import { failed, listDevices, showNotice } from "./device.js";
import { button, byId, latest, make, milliseconds } from "./dom.js";
import { ModelWorker, WorkerError } from "./model-worker.js";

/**
 * @typedef {{ done: number, total: number, seconds: number | undefined }} Progress
 * @typedef {{ progress?: Progress, prepared?: Progress }} News
 * @typedef {string | Record<string, File>} Source the address of a folder, or files by their names in it
 */

/** The folder that the demo's server provides. */
const ready = new URL("/models/all-MiniLM-L6-v2/", location.href).href;
/** The most results that are shown. */
const MAX_RESULTS = 10;
/** The most pieces of a text that are searched. */
const MAX_PIECES = 20_000;
/** The largest text file, in megabytes. */
const MAX_FILE = 5;
/** The most characters of a result that are shown. */
const MAX_SHOWN = 600;
/** The milliseconds without a change before a text is read, and between updates of the results while vectors are computed. */
const [TYPING, REFRESH] = [300, 500];

const text = (/** @type {string} */ id) => byId(id, HTMLElement);
const field = (/** @type {string} */ id) => byId(id, HTMLInputElement);
const press = (/** @type {string} */ id) => byId(id, HTMLButtonElement);
const area = byId("text", HTMLTextAreaElement);

/** Starts a worker. */
const startWorker = () => {
  const worker = new Worker(new URL("./search-worker.js", import.meta.url), { type: "module", name: "search" });
  return new ModelWorker(worker, onMessage);
};

let model = startWorker();
let isLoaded = false;
/** The work in progress, as a sentence, or undefined. @type {string | undefined} */
let busy;
/** The source of the model. @type {{ source: Source, name: string }} */
let last = { source: ready, name: "all-MiniLM-L6-v2" };
/** The distinct pieces of the text. @type {string[]} */
let pieces = [];
/** The pieces that are shown as results. @type {string[]} */
let shown = [];
/** The number of texts sent to the worker. */
let texts = 0;
/** The time of the last search that was caused by new vectors. */
let refreshed = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let typing;

/** Finds the results of the newest query. A waiting query is replaced by a newer one. */
const search = latest(async () => {
  const query = field("query").value.trim();
  if (!isLoaded || !query || !pieces.length) return showNothing();
  const own = model;
  const begun = performance.now();
  try {
    const { found, ready } = await own.ask("search", query, MAX_RESULTS);
    if (isLoaded && own === model) showResults(query, found, ready, performance.now() - begun);
  } catch (error) {
    if (own === model) report(error);
  }
});

const rows = Array.from({ length: MAX_RESULTS }, (_, row) => {
  const piece = make("span", { class: "piece" });
  const cosine = make("span", { class: "time" });
  const bar = make("span", { class: "bar" });
  const shows = button("", () => reveal(shown[row] ?? ""));
  shows.append(piece, cosine, bar);
  return { item: make("li", { hidden: "" }, shows), piece, cosine, bar };
});

text("results").append(...rows.map(({ item }) => item));
const wanted = await listDevices();
connect();
updateControls(); // Until now a click would have been lost.
prepare();
// For programs that test the page.
Object.assign(window, { demo: { device: {}, ready: Promise.resolve() } });

function connect() {
  press("fetch").addEventListener("click", () => void load(ready, "all-MiniLM-L6-v2"));
  const folder = field("folder");
  folder.addEventListener("change", () => {
    const chosen = [...(folder.files ?? [])];
    folder.value = "";
    if (chosen.length) void load(...filesByName(chosen));
  });
  byId("by-address", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    const address = field("address").value.trim();
    if (address) void load(address, address.split("/").filter(Boolean).pop() ?? "");
  });
  press("cancel").addEventListener("click", () => model.stop());
  press("close").addEventListener("click", () => void close());
  field("query").addEventListener("input", () => void search());
  for (const example of text("examples").querySelectorAll("button")) {
    example.addEventListener("click", () => {
      field("query").value = example.textContent ?? "";
      void search();
    });
  }
  area.addEventListener("input", () => changed(TYPING));
  press("restore").addEventListener("click", () => setText(area.defaultValue));
  const file = field("file");
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    file.value = "";
    if (chosen) void openText(chosen);
  });
  const hasFiles = (/** @type {DragEvent} */ { dataTransfer }) => dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!hasFiles(event) || !event.dataTransfer) return;
    event.preventDefault();
    void dropped(event.dataTransfer).catch(failed);
  });
}

/** Enables the controls that can be used now. */
function updateControls() {
  const isBusy = busy !== undefined;
  for (const id of ["fetch", "folder", "address", "load"]) Object.assign(text(id), { disabled: isBusy });
  for (const example of text("examples").querySelectorAll("button")) example.disabled = !isLoaded;
  field("query").disabled = !isLoaded;
  field("query").placeholder = isLoaded ? "Type to search" : "First load a model";
  press("close").disabled = !isLoaded || isBusy;
}

/**
 * Runs one work at a time, and shows its errors.
 * @param {string} sentence the work in progress
 * @param {() => Promise<unknown>} work
 */
async function alone(sentence, work) {
  if (busy) return;
  busy = sentence;
  updateControls();
  try {
    await work();
  } catch (error) {
    report(error);
  } finally {
    busy = undefined;
    updateControls();
  }
}

/**
 * Shows an error. After a lost device, the model is loaded again in a new worker.
 * @param {unknown} error
 */
function report(error) {
  if (!(error instanceof WorkerError) || error.code !== "DeviceLost") return failed(error);
  model.end();
  model = startWorker();
  unload();
  failed(`The device was lost (${error.message}). `);
  text("notice").append(button("Load the model again", () => void load(last.source, last.name)));
}

/** Shows the page without a model. */
function unload() {
  isLoaded = false;
  texts += 1;
  text("embedding").hidden = true;
  for (const id of ["time", "dimensions", "memory"]) text(id).textContent = "–";
  showNothing();
  updateControls();
}

/**
 * @param {Source} source
 * @param {string} name
 */
function load(source, name) {
  return alone("A model is being loaded.", async () => {
    showNotice("");
    unload();
    last = { source, name };
    showProgress({ done: 0, total: 0, seconds: undefined });
    text("loading").hidden = false;
    try {
      const { device, fallback, dimensions, maxTokens, memory } = await model.ask("load", source, wanted);
      isLoaded = true;
      const where = device.backend === "cpu" ? "the CPU, on one thread" : device.name;
      showNotice(`${name} runs on ${where}.${fallback ? ` ${fallback}.` : ""}`);
      text("dimensions").textContent = `${dimensions} numbers`;
      text("most-tokens").textContent = `the first ${maxTokens} tokens`;
      showMemory(memory);
    } finally {
      text("loading").hidden = true;
    }
  }).then(() => {
    prepare();
    if (isLoaded) field("query").focus();
  });
}

function close() {
  return alone("The model is being closed.", async () => {
    unload();
    await model.ask("close");
    showNotice("");
  });
}

/** Whether a model may have a file with this name. @param {string} name */
const isModelFile = (name) => /\.(json|safetensors)$/.test(name);

/**
 * Returns a folder's files by their paths in it, and the folder's name.
 * @param {File[]} files
 * @returns {[Record<string, File>, string]}
 */
function filesByName(files) {
  const path = ({ name, webkitRelativePath }) => webkitRelativePath.slice(webkitRelativePath.indexOf("/") + 1) || name;
  const named = files.filter(({ name }) => isModelFile(name)).map((file) => [path(file), file]);
  const [folder] = files[0]?.webkitRelativePath.split("/") ?? [];
  return [Object.fromEntries(named), folder || "The model"];
}

/**
 * Returns the files of a dropped folder by their paths, including files in its subfolders.
 * @param {FileSystemDirectoryEntry} folder
 * @param {string} [path]
 * @returns {Promise<Record<string, File>>}
 */
async function filesOf(folder, path = "") {
  /** @type {Record<string, File>} */
  const named = {};
  const reader = folder.createReader();
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return named;
    for (const entry of entries) {
      const name = path + entry.name;
      if (entry.isDirectory && !path) {
        Object.assign(named, await filesOf(/** @type {FileSystemDirectoryEntry} */ (entry), `${name}/`));
      } else if (entry.isFile && isModelFile(name)) {
        const file = /** @type {FileSystemFileEntry} */ (entry);
        named[name] = await new Promise((resolve, reject) => file.file(resolve, reject));
      }
    }
  }
}

/**
 * Loads dropped files. A folder, or the files of one, is a model, and any other file is a text.
 * @param {DataTransfer} data
 */
async function dropped({ items, files }) {
  // Both lists become empty after the event.
  const all = [...files];
  const folder = [...items].map((item) => item.webkitGetAsEntry()).find((entry) => entry?.isDirectory);
  const isModel = folder || all.some(({ name }) => name.endsWith(".safetensors"));
  if (isModel && busy) return showNotice(`${busy} ${folder?.name ?? "The folder"} was not loaded: drop it again afterwards.`);
  if (folder) return load(await filesOf(/** @type {FileSystemDirectoryEntry} */ (folder)), folder.name);
  if (isModel) return load(...filesByName(all));
  if (all.length !== 1) return showNotice("Drop one text file, or the folder of a model.");
  await openText(all[0]);
}

/** @param {File} file */
async function openText(file) {
  if (file.size > MAX_FILE * 1e6) {
    return failed(`${file.name} must have at most ${MAX_FILE} MB, got ${megabytes(file.size)} MB.`);
  }
  try {
    const content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (content.includes("\0")) throw new TypeError("a zero byte");
    showNotice("");
    setText(content);
  } catch (error) {
    // The decoder throws a TypeError.
    if (error instanceof TypeError) failed(`${file.name} must be a text in UTF-8.`);
    else failed(`${file.name} must be readable, got: ${error instanceof Error ? error.message : error}`);
  }
}

/** @param {string} content */
function setText(content) {
  area.value = content;
  area.scrollTop = 0;
  changed(0);
}

/**
 * Prepares the text for searches after `wait` milliseconds without a change.
 * @param {number} wait
 */
function changed(wait) {
  press("restore").disabled = area.value === area.defaultValue;
  clearTimeout(typing);
  typing = setTimeout(prepare, wait);
  // Until then, the results are those of the text before.
  if (isLoaded && pieces.length) text("summary").textContent = "The text has changed. Results follow.";
}

/**
 * Splits a text into pieces. A piece ends at a line break, and after a period, question mark or exclamation mark before white
 * space. Chinese and Japanese marks need no white space after them.
 * @param {string} content
 */
function split(content) {
  const parts = content.split(/[\r\n]+|(?<=[.!?…]["'\p{Pe}\p{Pf}]*)\s+|(?<=[。！？][\p{Pe}\p{Pf}]?)(?![\p{Pe}\p{Pf}])/u);
  return parts.map((part) => part.trim()).filter(Boolean);
}

/** Requests the vectors of the text from the worker. The worker stops computing those of an older text. */
async function prepare() {
  const all = [...new Set(split(area.value))];
  pieces = all.slice(0, MAX_PIECES);
  const count = pieces.length.toLocaleString("en");
  const isCut = pieces.length < all.length;
  text("pieces").textContent = isCut ? `the first ${count} of ${all.length.toLocaleString("en")}` : count;
  if (!isLoaded) return showNothing();
  const own = ++texts;
  try {
    const answer = await model.ask("prepare", pieces);
    if (answer && own === texts) showMemory(answer.memory);
  } catch (error) {
    if (own === texts) report(error);
  }
  if (own !== texts) return;
  text("embedding").hidden = true;
  void search();
}

/** @param {News} news */
function onMessage({ progress, prepared }) {
  if (progress) showProgress(progress);
  if (!prepared || !isLoaded) return;
  const { done, total, seconds } = prepared;
  text("embedding").hidden = false;
  byId("embedded", HTMLProgressElement).value = done / total;
  const left = seconds === undefined ? "" : `, ${duration(seconds)} left`;
  text("embedded-text").textContent = `${done.toLocaleString("en")} of ${total.toLocaleString("en")} pieces are ready${left}`;
  if (performance.now() - refreshed < REFRESH) return;
  refreshed = performance.now();
  void search();
}

const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(0);

/** @param {Progress} progress */
function showProgress({ done, total, seconds }) {
  const bar = byId("progress", HTMLProgressElement);
  // The small files come first, and the total size is unknown until then.
  const isKnown = total > 1e6;
  if (isKnown) bar.value = done / total;
  else bar.removeAttribute("value");
  const left = seconds === undefined ? "" : `, ${duration(seconds)} left`;
  text("progress-text").textContent = isKnown ? `${megabytes(done)} of ${megabytes(total)} MB${left}` : "";
}

/** @param {number} seconds */
const duration = (seconds) => (seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`);

/** @param {number} bytes */
function showMemory(bytes) {
  text("memory").textContent = `${megabytes(bytes)} MB`;
}

/** Shows that there are no results, and the reason. */
function showNothing() {
  shown = [];
  for (const { item } of rows) item.hidden = true;
  text("hint").hidden = true;
  text("time").textContent = "–";
  const next = pieces.length ? "Type a query, or click one." : "There is no text to search.";
  text("summary").textContent = isLoaded ? next : "Load a model to search.";
  delete text("results").dataset.query;
}

/**
 * @param {string} query
 * @param {[piece: string, cosine: number][]} found
 * @param {number} ready the pieces that were searched
 * @param {number} ms
 */
function showResults(query, found, ready, ms) {
  shown = found.map(([piece]) => piece);
  for (const [row, { item, piece, cosine, bar }] of rows.entries()) {
    item.hidden = row >= found.length;
    if (item.hidden) continue;
    const [content, value] = found[row];
    piece.textContent = content.length > MAX_SHOWN ? `${content.slice(0, MAX_SHOWN)}…` : content;
    // A small negative cosine is shown as 0.000, without a sign.
    cosine.textContent = (Math.round(1000 * value) / 1000 || 0).toFixed(3);
    bar.style.setProperty("--cosine", `${(100 * Math.max(value, 0)).toFixed(1)}%`);
  }
  text("hint").hidden = found.length === 0;
  text("time").textContent = milliseconds(ms);
  const [best, count] = [found.length === 1 ? "The best" : `The ${found.length} best`, ready.toLocaleString("en")];
  const isPart = ready < pieces.length;
  if (!ready) text("summary").textContent = "No piece is ready yet.";
  else text("summary").textContent = isPart ? `${best} of the ${count} pieces that are ready` : `${best} of ${count} pieces`;
  text("results").dataset.query = query;
}

/**
 * Selects a piece in the text.
 * @param {string} piece
 */
function reveal(piece) {
  const start = area.value.indexOf(piece);
  if (start < 0) return;
  area.setSelectionRange(start, start + piece.length);
  // Browsers scroll to a selection when the field gets the focus.
  area.blur();
  area.focus();
}
