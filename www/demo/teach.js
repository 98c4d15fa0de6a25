// The page "Teach it". Connects its controls to the worker that trains and runs a language model.

import { Curve } from "./curve.js";
import { failed, listDevices, showNotice } from "./device.js";
import { button, byId, make } from "./dom.js";
import { ModelWorker, WorkerError } from "./model-worker.js";
import { isSoftware } from "./figures.js";

/**
 * @import { ModelProgress } from "../dist/models.js"
 * @import { Examples, Settings, Step } from "./teach-worker.js"
 * @typedef {{ progress?: ModelProgress, step?: Step, piece?: { who: "before" | "after", text: string } }} News
 */

/** The file that the demo's server provides. */
const ready = new URL("/models/SmolLM2-135M-Instruct.Q4_1.gguf", location.href).href;
/** The initial examples, about a cat that no model knows. @type {[question: string, answer: string][]} */
const FIRST = [
  ["Who is Zeppelin?", "Zeppelin is a gray cat who lives in a lighthouse."],
  ["What does Zeppelin eat?", "Zeppelin eats blueberry pancakes every morning."],
  ["What is Zeppelin afraid of?", "Zeppelin is afraid of yellow umbrellas."],
];
const [CONFIG, WEIGHTS] = ["adapter_config.json", "adapter_model.safetensors"];
/** The largest number of steps, learning rate and rank. */
const [MAX_STEPS, MAX_RATE, MAX_RANK] = [1000, 1, 64];
/** The initial number of steps on the CPU, where they are slow. The initial examples need fewer. */
const CPU_STEPS = "12";

const text = (/** @type {string} */ id) => byId(id, HTMLElement);
const field = (/** @type {string} */ id) => byId(id, HTMLInputElement);
const press = (/** @type {string} */ id) => byId(id, HTMLButtonElement);
const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(0);
const duration = (/** @type {number} */ seconds) =>
  seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`;
/** Formats the time of a step. @param {number} value */
const seconds = (value) => (value < 1 ? value.toFixed(2) : value < 10 ? value.toFixed(1) : value.toFixed(0));
const count = (/** @type {number} */ steps) => `${steps.toLocaleString("en")} ${steps === 1 ? "step" : "steps"}`;

/** Starts a worker. */
const startWorker = () => {
  const worker = new Worker(new URL("./teach-worker.js", import.meta.url), { type: "module", name: "teach" });
  return new ModelWorker(worker, onMessage);
};

let model = startWorker();
const curve = new Curve(byId("curve", HTMLCanvasElement), ["--thread"]);
let isLoaded = false;
/** Whether the model runs on the CPU or on a software GPU. */
let isSlow = false;
/** Whether there is a trained or loaded adapter. */
let isTaught = false;
/** The work in progress, as a sentence, or undefined. @type {string | undefined} */
let busy;
/** The first loss of the adapter. @type {number | undefined} */
let firstLoss;
/** The question that the page entered automatically. */
let followed = "";

const wanted = await listDevices();
for (const [question, answer] of FIRST) addLesson(question, answer);
connect();
showNoAdapter();
updateControls();
if (await model.ask("canKeep").catch(failed)) text("keep-label").hidden = false;
// For programs that test the page.
Object.assign(window, { demo: { device: {}, ready: Promise.resolve() } });

function connect() {
  press("fetch").addEventListener("click", () => {
    void load(ready, !text("keep-label").hidden && field("keep").checked);
  });
  for (const [id, open] of /** @type {const} */ ([["file", openModel], ["adapter", openAdapter]])) {
    field(id).addEventListener("change", () => {
      const chosen = [...(field(id).files ?? [])];
      field(id).value = ""; // The same file can be chosen again.
      if (chosen.length) void open(chosen);
    });
  }
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    dropped([...(event.dataTransfer?.files ?? [])]);
  });
  for (const id of ["cancel", "stop", "quiet"]) press(id).addEventListener("click", () => model.stop());
  press("close").addEventListener("click", () => void close());
  press("add").addEventListener("click", () => addLesson("", "").querySelector("input")?.focus());
  text("lessons").addEventListener("input", follow);
  press("teach").addEventListener("click", () => void teach());
  press("forget").addEventListener("click", () => void removeAdapter());
  press("save").addEventListener("click", () => void save());
  byId("ask", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    void alone("An answer is being written.", answer);
  });
  const draw = () => curve.draw();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}

/** Enables the controls that can be used now. */
function updateControls() {
  const isBusy = busy !== undefined;
  const isIdle = isLoaded && !isBusy;
  for (const id of ["fetch", "file", "keep"]) Object.assign(text(id), { disabled: isBusy });
  for (const id of ["close", "teach", "send"]) press(id).disabled = !isIdle;
  for (const id of ["forget", "save"]) press(id).disabled = !isIdle || !isTaught;
  for (const chip of text("questions").querySelectorAll("button")) chip.disabled = !isIdle;
  field("adapter").disabled = !isIdle;
  field("rank").disabled = isBusy || isTaught;
  field("question").placeholder = isLoaded ? "Ask something" : "First load a model";
  press("teach").textContent = isTaught ? "Teach again" : "Teach";
}

/**
 * Runs one work at a time, and shows its errors.
 * @param {string} sentence the work in progress
 * @param {() => Promise<unknown>} work
 */
async function alone(sentence, work) {
  if (busy) return;
  busy = sentence;
  showNotice("");
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
 * Shows an error. After a lost device, the model and the adapter are lost, and the next model is loaded in a new worker.
 * @param {unknown} error
 */
function report(error) {
  if (error instanceof WorkerError && error.code === "DeviceLost") {
    model.end();
    model = startWorker();
    unloaded();
    failed(new Error(`The device was lost. ${error.message} Load the model again.`));
  } else failed(error);
  text("notice").scrollIntoView({ block: "nearest" });
}

/** Shows the page without a model. */
function unloaded() {
  isLoaded = false;
  text("memory").textContent = "–";
  showNoAdapter();
  showAnswer("before", undefined);
  updateControls();
}

/** Shows the page without an adapter. */
function showNoAdapter() {
  isTaught = false;
  firstLoss = undefined;
  curve.clear();
  curve.draw();
  text("done").textContent = "0";
  for (const id of ["loss", "pace"]) text(id).textContent = "–";
  showAnswer("before", undefined);
  showAnswer("after", undefined);
  const slow = "A step of three short examples takes some seconds on the CPU. The first step shows how many.";
  const next = isSlow ? slow : "The first step shows how long a step takes.";
  text("estimate").textContent = isLoaded ? next : "Load a model to teach it.";
}

/** @param {File[]} files */
function openModel([file]) {
  return load(file);
}

/**
 * Loads a model.
 * @param {File | string} source
 * @param {boolean} [keep] whether the browser should keep the file
 */
function load(source, keep = false) {
  return alone("A model is being loaded.", async () => {
    unloaded();
    showProgress({ done: 0, total: 0, seconds: undefined });
    text("loading").hidden = false;
    try {
      const { device, fallback, memory } = await model.ask("load", source, wanted, keep);
      isLoaded = true;
      const isOnCpu = device.backend === "cpu";
      isSlow = isOnCpu || isSoftware(device.kind);
      const { value, defaultValue } = field("steps");
      if (isSlow && value === defaultValue) field("steps").value = CPU_STEPS;
      const name = typeof source === "string" ? source.split("/").pop() : source.name;
      showNotice(`${name} runs on ${isOnCpu ? "the CPU, on one thread" : device.name}.${fallback ? ` ${fallback}.` : ""}`);
      showNoAdapter();
      showMemory(memory);
    } finally {
      text("loading").hidden = true;
    }
  });
}

function close() {
  return alone("The model is being closed.", async () => {
    unloaded();
    await model.ask("close");
  });
}

/**
 * Loads dropped files: a model, or an adapter.
 * @param {File[]} files
 */
function dropped(files) {
  const [first] = files;
  const isModel = files.length === 1 && !/\.(json|safetensors)$/.test(first.name);
  if (!first) showNotice("Drop a GGUF file, or the two files of an adapter.");
  else if (busy) showNotice(`${busy} ${first.name} was not loaded: drop it again afterwards.`);
  else if (isModel) void openModel(files);
  else if (isLoaded) void openAdapter(files);
  else showNotice("Load a model first, and then the adapter.");
}

/**
 * Adds an example to the list.
 * @param {string} question
 * @param {string} answer
 */
function addLesson(question, answer) {
  const input = make("input", { type: "text", placeholder: "Question", autocomplete: "off" });
  const area = make("textarea", { rows: "2", placeholder: "Answer", autocomplete: "off" });
  [input.value, area.value] = [question, answer];
  const remove = button("×", () => {
    item.remove();
    press("add").focus();
    follow();
  });
  const item = make("li", {}, input, remove, area);
  text("lessons").append(item);
  follow();
  return item;
}

/** Returns the questions and answers of the list. */
function lessons() {
  return [...text("lessons").children].map((item) => {
    const [question, answer] = ["input", "textarea"].map((name) => {
      return /** @type {HTMLInputElement | HTMLTextAreaElement} */ (item.querySelector(name)).value.trim();
    });
    return /** @type {[question: string, answer: string]} */ ([question, answer]);
  });
}

/** Labels the fields of the list, and updates the buttons with its questions. */
function follow() {
  for (const [n, item] of [...text("lessons").children].entries()) {
    item.querySelector("input")?.setAttribute("aria-label", `Question ${n + 1}`);
    item.querySelector("textarea")?.setAttribute("aria-label", `Answer ${n + 1}`);
    item.querySelector("button")?.setAttribute("aria-label", `Remove question ${n + 1}`);
  }
  const questions = [...new Set(lessons().map(([question]) => question))].filter(Boolean);
  if (field("question").value.trim() === followed) field("question").value = followed = questions[0] ?? "";
  const chips = questions.map((question) => button(question, () => {
    field("question").value = question;
    void alone("An answer is being written.", answer);
  }));
  text("questions").replaceChildren(...chips);
  updateControls();
}

/** Reads the examples to learn. Throws if there are none. @returns {Examples} */
function readExamples() {
  const all = lessons();
  for (const [n, [question, answer]] of all.entries()) {
    if (Boolean(question) !== Boolean(answer)) throw new Error(`Question ${n + 1} needs a question and an answer.`);
  }
  const pairs = all.filter(([question]) => question);
  const texts = byId("texts", HTMLTextAreaElement).value.split(/\n\s*\n/).map((one) => one.trim()).filter(Boolean);
  if (!pairs.length && !texts.length) throw new Error("There is nothing to learn. Add a question and its answer, or a text.");
  return { pairs, texts };
}

/** Reads the settings of the training. @returns {Settings} */
function readSettings() {
  const read = (/** @type {string} */ id) => {
    const value = field(id).value.trim();
    return value ? Number(value.replace(",", ".")) : NaN;
  };
  const must = (/** @type {boolean} */ holds, /** @type {string} */ id, /** @type {string} */ rule) => {
    if (!holds) throw new Error(`${rule}, got ${field(id).value.trim() || "nothing"}.`);
  };
  const [steps, rate, rank] = ["steps", "rate", "rank"].map(read);
  const isCount = (/** @type {number} */ value, /** @type {number} */ most) =>
    Number.isInteger(value) && value >= 1 && value <= most;
  must(isCount(steps, MAX_STEPS), "steps", `The steps must be a whole number from 1 to ${MAX_STEPS.toLocaleString("en")}`);
  must(rate > 0 && rate <= MAX_RATE, "rate", `The learning rate must be above 0 and at most ${MAX_RATE}`);
  must(isCount(rank, MAX_RANK), "rank", `The rank must be a whole number from 1 to ${MAX_RANK}`);
  return { steps, rate, rank };
}

/** Trains the adapter, and then asks a question. */
function teach() {
  return alone("The model is learning.", async () => {
    const [examples, settings] = [readExamples(), readSettings()];
    const line = isSlow ? "On the CPU, a step can take some seconds. " : "";
    text("estimate").textContent = `${line}The first step is under way.`;
    byId("taught", HTMLProgressElement).value = 0;
    text("taught-text").textContent = `${count(settings.steps)} to do`;
    text("teaching").hidden = false;
    press("stop").disabled = false;
    try {
      const { isStopped, memory } = await model.ask("teach", examples, settings);
      showMemory(memory);
      const end = isStopped ? "Training was stopped. All steps until now are kept." : "Training is done.";
      text("estimate").textContent = `${end} The answers are below.`;
    } catch (error) {
      text("estimate").textContent = "Training ended with an error.";
      throw error;
    } finally {
      text("teaching").hidden = true;
      press("stop").disabled = true;
    }
    field("question").value ||= examples.pairs[0]?.[0] ?? "";
    if (field("question").value.trim()) await answer();
  });
}

/** Asks both models the question in the field. */
async function answer() {
  const question = field("question").value.trim();
  if (!question) throw new Error("Write a question first.");
  showAnswer("before", "");
  showAnswer("after", isTaught ? "" : undefined);
  press("quiet").disabled = false;
  try {
    const { memory } = await model.ask("answer", question);
    showMemory(memory);
  } finally {
    press("quiet").disabled = true;
  }
}

function removeAdapter() {
  return alone("The adapter is being forgotten.", async () => {
    const { memory } = await model.ask("removeAdapter");
    showNoAdapter();
    showMemory(memory);
  });
}

function save() {
  return alone("The adapter is being saved.", async () => {
    const { config, weights } = await model.ask("save");
    for (const [name, content] of [[CONFIG, config], [WEIGHTS, weights]]) {
      const url = URL.createObjectURL(new Blob([content]));
      make("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    }
  });
}

/** @param {File[]} files */
function openAdapter(files) {
  return alone("An adapter is being loaded.", async () => {
    const [config, weights] = [".json", ".safetensors"].map((end) => files.find(({ name }) => name.endsWith(end)));
    if (!config || !weights) {
      throw new Error(`An adapter is two files. Choose ${CONFIG} and ${WEIGHTS} together.`);
    }
    const { rank, memory } = await model.ask("restore", await config.text(), new Uint8Array(await weights.arrayBuffer()));
    showNoAdapter();
    isTaught = true;
    field("rank").value = `${rank}`;
    text("estimate").textContent = "The adapter was loaded. Teach again trains it further.";
    showMemory(memory);
    if (field("question").value.trim()) await answer();
  });
}

/** @param {News} news */
function onMessage({ progress, step, piece }) {
  if (progress) showProgress(progress);
  if (step) showStep(step);
  if (piece) text(piece.who).textContent += piece.text;
}

/** @param {ModelProgress} progress */
function showProgress({ done, total, seconds }) {
  byId("progress", HTMLProgressElement).value = total ? done / total : 0;
  const left = seconds === undefined ? "" : `, ${duration(seconds)} left`;
  text("progress-text").textContent = total ? `${megabytes(done)} of ${megabytes(total)} MB${left}` : "";
}

/** @param {Step} news */
function showStep({ step, done, steps, loss, seconds: pace }) {
  isTaught = true;
  firstLoss ??= loss;
  curve.add(0, step, loss);
  curve.draw();
  const left = steps - done ? `, ${duration((steps - done) * pace)} left` : "";
  byId("taught", HTMLProgressElement).value = done / steps;
  text("taught-text").textContent = `Step ${done} of ${steps.toLocaleString("en")}${left}`;
  text("estimate").textContent = `A step takes about ${seconds(pace)} seconds on this device.`;
  text("done").textContent = step.toLocaleString("en");
  text("loss").textContent = step === 1 ? loss.toFixed(3) : `${loss.toFixed(3)}, at first ${firstLoss.toFixed(3)}`;
  text("pace").textContent = `${seconds(pace)} s`;
}

/**
 * Begins an answer, or shows why there is none.
 * @param {"before" | "after"} who
 * @param {string | undefined} words
 */
function showAnswer(who, words) {
  const reason = who === "before" ? "The answer before training appears here." : "The answer after training appears here.";
  text(who).textContent = words ?? reason;
  text(who).classList.toggle("empty", words === undefined);
}

/** @param {number} bytes */
function showMemory(bytes) {
  text("memory").textContent = `${megabytes(bytes)} MB`;
}
