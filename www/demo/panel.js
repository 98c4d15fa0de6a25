// The panel with the device's name, plans, kernels and counters.

import { byId, make } from "./dom.js";
import { isSoftware } from "./figures.js";

/** @import { Engine } from "./engine.js" */

/** The displayed names of counters. @type {Record<string, string>} */
const counted = {
  plans: "Plans created",
  pipelines: "Pipelines compiled",
  submits: "Batches submitted",
  kernels: "Kernels dispatched",
  buffers: "Buffers allocated",
  bytes: "Bytes allocated",
  peakBytes: "Peak bytes in use",
};

/** @type {Record<string, string>} */
const kinds = {
  discrete: "a graphics card",
  integrated: "an integrated GPU",
  gpu: "a GPU",
  cpu: "the CPU, in WebAssembly",
  software: "WebGPU emulated on the CPU",
};

/** @param {string} kind */
export const kindInWords = (kind) => kinds[kind] ?? kind;

/** @param {Engine} engine */
export function showDevice(engine) {
  const about = engine.about();
  /** @type {[string, string | undefined][]} */
  const facts = [
    ["Name", about.name],
    ["Backend", `${about.backend}: ${kindInWords(about.kind)}`],
    ["Vendor", about.vendor],
    ["Driver", about.driver],
    ["Fallback", about.fallback ?? "none"],
  ];
  const shown = facts.filter(([, value]) => value);
  const pairs = shown.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value ?? "")]);
  byId("about", HTMLElement).replaceChildren(...pairs);
  byId("gpu-name", HTMLElement).textContent = shortName(engine);
}

/** @param {Engine} engine */
function shortName(engine) {
  const { backend, kind } = engine.about();
  if (isSoftware(kind)) return `${backend} (software)`;
  return backend === "webgpu" ? "GPU (WebGPU)" : `${backend}`;
}

/**
 * @param {Engine} engine
 * @param {"image" | "attention"} kind
 */
export function showPlan(engine, kind) {
  const plan = engine.plan(kind);
  byId("plan", HTMLPreElement).textContent = plan?.text.trimEnd() ?? "";
  const kernels = byId("kernels", HTMLElement);
  const open = new Set([...kernels.querySelectorAll("details[open] summary")].map((summary) => summary.textContent));
  const shown = (plan?.labels ?? []).map((label, i) => {
    const source = plan?.sources[i] ?? "This kernel runs on the CPU, so it has no shader source.";
    const title = `#${i} ${label}`;
    const details = make("details", {}, make("summary", {}, title), make("pre", { tabindex: "0" }, source));
    details.open = open.has(title);
    return details;
  });
  kernels.replaceChildren(...shown);
}

/** @param {Engine} engine */
export function showCounters(engine) {
  const stats = /** @type {Record<string, number>} */ (/** @type {unknown} */ (engine.stats()));
  const rows = Object.entries(counted).filter(([name]) => stats[name] !== undefined);
  const shown = rows.map(([name, title]) =>
    make("tr", {}, make("th", { scope: "row" }, title), make("td", { "data-counter": name }, stats[name].toLocaleString("en"))),
  );
  byId("counters", HTMLTableSectionElement).replaceChildren(...shown);
}
