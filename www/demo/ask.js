// The page "Ask a model". Connects its controls to the worker with the language model.

import { failed, listDevices, showNotice } from "./device.js";
import { button, byId, make } from "./dom.js";
import { ModelWorker } from "./model-worker.js";

/**
 * @import { KeptModel, Message, ModelProgress } from "../dist/models.js"
 * @typedef {{ text: string, own: string, probability: number, others: [string, number][], speed: number, first: number }} Token
 * @typedef {{ contextUsed: number, contextLength: number, memory: number }} Facts
 */

/** The file that the demo's server provides. */
const ready = new URL("/models/SmolLM2-135M-Instruct.Q4_1.gguf", location.href).href;

const text = (/** @type {string} */ id) => byId(id, HTMLElement);
const field = (/** @type {string} */ id) => byId(id, HTMLInputElement);
const press = (/** @type {string} */ id) => byId(id, HTMLButtonElement);
const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(0);
const duration = (/** @type {number} */ seconds) =>
  seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`;

/** The conversation. @type {Message[]} */
let messages = [];
/** The answer that is being written. @type {HTMLElement | undefined} */
let writing;
let isLoaded = false;
/** The work in progress, as a sentence, or undefined. @type {string | undefined} */
let busy;

const worker = new Worker(new URL("./ask-worker.js", import.meta.url), { type: "module", name: "model" });
const model = new ModelWorker(worker, (/** @type {{ progress?: ModelProgress, token?: Token }} */ { progress, token }) => {
  // During an answer, progress means that the model is loaded again after a lost device. The answer then continues.
  if (writing) text("loading").hidden = !progress;
  if (progress) showProgress(progress);
  if (token) showToken(token);
});
const wanted = await listDevices();
connect();
updateControls(); // Until now a click would have been lost.
await listKept().catch(failed);
// For programs that test the page.
Object.assign(window, { demo: { device: {}, ready: Promise.resolve() } });

function connect() {
  press("fetch").addEventListener("click", () => void load(ready, field("keep").checked));
  const file = field("file");
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    file.value = "";
    if (chosen) void load(chosen);
  });
  byId("by-address", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    const address = field("address").value.trim();
    if (address) void load(address, field("keep").checked);
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    const dropped = event.dataTransfer?.files[0];
    if (!dropped) showNotice("Drop a GGUF file here.");
    else if (busy) showNotice(`${busy} ${dropped.name} was not loaded: drop it again afterwards.`);
    else void load(dropped);
  });
  press("cancel").addEventListener("click", () => model.stop());
  press("stop").addEventListener("click", () => model.stop());
  press("forget").addEventListener("click", () => void close());
  press("again").addEventListener("click", begin);
  byId("ask", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    const question = field("question").value.trim();
    if (question && isLoaded && !busy) void answer(question);
  });
  const temperature = field("temperature");
  temperature.addEventListener("input", () => {
    byId("temperature-value", HTMLOutputElement).value = temperature.value;
  });
}

/** Enables the controls that can be used now. */
function updateControls() {
  const isBusy = busy !== undefined;
  for (const id of ["fetch", "file", "address", "load-url", "keep"]) Object.assign(text(id), { disabled: isBusy });
  for (const button of text("kept-list").querySelectorAll("button")) button.disabled = isBusy;
  field("question").disabled = !isLoaded || isBusy;
  press("send").disabled = !isLoaded || isBusy;
  press("forget").disabled = !isLoaded || isBusy;
  press("again").disabled = isBusy || messages.length === 0;
  field("question").placeholder = isLoaded ? "Ask something" : "First load a model";
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
    failed(error);
  } finally {
    busy = undefined;
    updateControls();
  }
}

/**
 * Loads a model.
 * @param {File | string} source
 * @param {boolean} [wantsKept] whether the browser should keep the file, if it can
 */
function load(source, wantsKept = false) {
  return alone("A model is being loaded.", async () => {
    showNotice("");
    isLoaded = false;
    begin();
    showProgress({ done: 0, total: 1, seconds: undefined });
    text("loading").hidden = false;
    try {
      const keep = wantsKept && (await model.ask("kept")) !== undefined;
      const { device, fallback, ...facts } = await model.ask("load", source, wanted, keep);
      isLoaded = true;
      const name = typeof source === "string" ? (source.split("/").pop() ?? "") : source.name;
      const where = device.backend === "cpu" ? "the CPU, on one thread" : device.name;
      showNotice(`${readable(name)} runs on ${where}.${fallback ? ` ${fallback}.` : ""}`);
      showFacts(facts);
    } finally {
      text("loading").hidden = true;
      await listKept();
    }
  }).then(() => field("question").focus());
}

/** Decodes a part of a URL for display. @param {string} part */
function readable(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Lists the model files that the browser keeps. */
async function listKept() {
  /** @type {KeptModel[] | undefined} */
  const all = await model.ask("kept");
  text("keep-label").hidden = all === undefined;
  text("kept").hidden = !all?.length;
  text("kept-list").replaceChildren(...(all ?? []).map(keptItem));
  updateControls();
}

/** @param {KeptModel} kept */
function keptItem({ name, url, bytes, total }) {
  const size = bytes < total ? `${megabytes(bytes)} of ${megabytes(total)} MB` : `${megabytes(total)} MB`;
  const remove = () => void alone("A model is being deleted.", () => model.ask("remove", url).then(listKept));
  return make(
    "li",
    {},
    make("span", { title: url }, name),
    make("span", { class: "time" }, size),
    button("Load", () => void load(url, true), { "aria-label": `Load ${name}` }),
    button("Delete", remove, { "aria-label": `Delete ${name}` }),
  );
}

function close() {
  return alone("The model is being closed.", async () => {
    await model.ask("close");
    isLoaded = false;
    begin();
    for (const id of ["speed", "first", "context", "memory"]) text(id).textContent = "–";
    showNotice("");
  });
}

/** Begins a new conversation. */
function begin() {
  messages = [];
  text("talk").replaceChildren();
  text("token").hidden = true;
  text("token-hint").hidden = false;
  updateControls();
}

/** @param {string} question */
function answer(question) {
  return alone("An answer is being written.", async () => {
    field("question").value = "";
    messages.push({ role: "user", content: question });
    writing = make("li", { class: "model" });
    text("talk").append(make("li", { class: "user" }, question), writing);
    press("stop").disabled = false;
    try {
      const seed = Number(field("seed").value);
      const options = { temperature: Number(field("temperature").value), seed: Number.isInteger(seed) ? Math.abs(seed) : 0 };
      const { finish, ...facts } = await model.ask("answer", messages, options);
      messages.push({ role: "assistant", content: writing.textContent ?? "" });
      showFacts(facts);
      if (finish === "contextFull") showNotice("The context is full. Start a new conversation.");
    } catch (error) {
      // A question without an answer is not part of the conversation.
      messages.pop();
      throw error;
    } finally {
      press("stop").disabled = true;
      writing = undefined;
      text("loading").hidden = true;
    }
  }).then(() => field("question").focus());
}

/** @param {ModelProgress} progress */
function showProgress({ done, total, seconds }) {
  byId("progress", HTMLProgressElement).value = total ? done / total : 0;
  const left = seconds === undefined ? "" : `, ${duration(seconds)} left`;
  text("progress-text").textContent = total > 1 ? `${megabytes(done)} of ${megabytes(total)} MB${left}` : "";
}

/** @param {Token} token */
function showToken({ text: piece, own, probability, others, speed, first }) {
  if (speed) text("speed").textContent = `${speed.toFixed(1)} tokens/s`;
  text("first").textContent = `${(first / 1000).toFixed(2)} s`;
  if (!writing) return;
  // White space is not in the button, because lines do not break inside of one.
  const [, before, word, after] = /^(\s*)(.*?)(\s*)$/s.exec(piece) ?? [];
  const shown = button(word, () => {
    for (const other of document.querySelectorAll(".talk button")) other.setAttribute("aria-pressed", "false");
    shown.setAttribute("aria-pressed", "true");
    showLikely(own, probability, others);
  }, { "aria-pressed": "false" });
  writing.append(before, ...(word ? [shown] : []), after);
}

/**
 * @param {string} own
 * @param {number} probability
 * @param {[string, number][]} others
 */
function showLikely(own, probability, others) {
  const row = (/** @type {string} */ token, /** @type {number} */ part, /** @type {boolean} */ isChosen) => {
    const cells = [make("th", { scope: "row" }, JSON.stringify(token)), make("td", {}, `${(100 * part).toFixed(1)} %`)];
    return make("tr", isChosen ? { "aria-current": "true" } : {}, ...cells);
  };
  const rows = others.map(([token, part]) => row(token, part, token === own));
  if (!others.some(([token]) => token === own)) rows.push(row(own, probability, true));
  text("likely").replaceChildren(...rows);
  text("token").hidden = false;
  text("token-hint").hidden = true;
}

/** @param {Facts} facts */
function showFacts({ contextUsed, contextLength, memory }) {
  text("context").textContent = `${contextUsed} of ${contextLength} tokens`;
  text("memory").textContent = `${(memory / 1e6).toFixed(0)} MB`;
}
