// A profile as a picture: a timeline of the host and the device, and a table of kernels.

import { byId, make } from "./dom.js";

/**
 * @import { ProfileData } from "../dist/nn.js"
 * @typedef {Record<string, unknown>} Args
 * @typedef {{ name: string, ph: string, cat: string, ts: number, dur: number, tid: number, args: Args }} TraceEvent
 * @typedef {{ data: ProfileData, events: TraceEvent[] }} Profiled
 */

const width = 1000;
const row = 34;
const left = 96;

/** The rows of the trace that are drawn, and their titles. */
const rows = [
  { tid: 1, title: "waiting" },
  { tid: 2, title: "the page" },
  { tid: 3, title: "submissions" },
  { tid: 4, title: "kernels" },
];

/** @param {number} ms */
const time = (ms) => {
  const [size, unit] = ms >= 1 ? [1, "ms"] : ms >= 1e-3 || ms === 0 ? [1e-3, "µs"] : [1e-6, "ns"];
  return `${(ms / size).toPrecision(3)} ${unit}`;
};

/**
 * Makes an SVG element.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 */
function draw(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, `${value}`);
  element.append(...children);
  return element;
}

/** @param {Profiled} profiled */
export function showProfile({ data, events }) {
  byId("profile-summary", HTMLElement).textContent = summary(data);
  byId("timeline", HTMLElement).replaceChildren(timeline(events, data.total));
  byId("profile-kernels", HTMLTableSectionElement).replaceChildren(...data.kernels.map((kernel) => line(kernel, data)));
}

/** @param {ProfileData} data */
function summary({ clock, resolution, total, deviceTime, untimed }) {
  const clocks = {
    timestamps: `Measured with GPU timestamps, in steps of ${time(resolution)}. Each kernel ran in its own pass.`,
    host: "Measured with the host's clock, because the CPU runs the kernels.",
    submissions: "This GPU has no timestamps, so whole submissions were timed.",
    none: "This device gives no times.",
  };
  const missing = untimed > 0 && clock === "timestamps" ? ` ${untimed} kernel runs have no time.` : "";
  return `${time(total)} in total, ${time(deviceTime)} of it on the device. ${clocks[clock]}${missing}`;
}

/**
 * Draws the timeline.
 * @param {TraceEvent[]} events
 * @param {number} total milliseconds
 */
function timeline(events, total) {
  const end = total * 1000;
  const x = (/** @type {number} */ ts) => left + ((width - left) * ts) / end;
  const height = rows.length * row + 24;
  const label = "Timeline of the page and the device";
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (let tick = 0; tick <= 4; tick++) {
    const at = x((end * tick) / 4);
    picture.append(draw("line", { x1: at, x2: at, y1: 0, y2: height - 18, class: "tick" }));
    const anchor = ["start", "middle", "middle", "middle", "end"][tick];
    picture.append(draw("text", { x: at, y: height - 4, "text-anchor": anchor }, time((total * tick) / 4)));
  }
  rows.forEach(({ tid, title }, at) => {
    const y = at * row;
    picture.append(draw("text", { x: 0, y: y + row / 2 + 2 }, title));
    for (const event of events.filter((event) => event.ph === "X" && event.tid === tid)) {
      const from = x(event.ts);
      const long = Math.max(1.5, x(event.ts + event.dur) - from);
      const tip = `${event.name}: ${time(event.dur / 1000)}`;
      const bar = draw("rect", { x: from, y: y + 4, width: long, height: row - 8, rx: 3 }, draw("title", {}, tip));
      const group = draw("g", { class: `span ${event.cat}`, "data-span": event.cat }, bar);
      // The text is cut to about the width of the bar.
      if (long > 60) group.append(draw("text", { x: from + 5, y: y + row / 2 + 4 }, tip.slice(0, Math.floor(long / 6.6) - 1)));
      picture.append(group);
    }
  });
  return picture;
}

/**
 * Makes a row of the table.
 * @param {ProfileData["kernels"][number]} kernel
 * @param {ProfileData} data
 */
function line(kernel, { deviceTime, clock }) {
  const timed = clock !== "submissions" && kernel.timed > 0;
  const share = timed && deviceTime > 0 ? kernel.time / deviceTime : 0;
  const bytes = (kernel.bytesRead + kernel.bytesWritten) / kernel.runs;
  const cells = [
    timed ? time(kernel.mean) : "-",
    timed ? `${Math.round(share * 100)}%` : "-",
    `${kernel.exactBytes ? "" : "≤ "}${(bytes / 1e6).toPrecision(3)} MB`,
    part(kernel.bytesPerSecond, 1e9, "GB/s", kernel.copyShare),
    part(kernel.flopsPerSecond, 1e9, "GFLOP/s", kernel.productShare),
  ];
  const label = make("th", { scope: "row" }, `${kernel.kind} ${kernel.label}`);
  const shown = make("tr", {}, ...cells.map((cell) => make("td", {}, cell)), label);
  shown.style.setProperty("--share", `${share * 100}%`);
  return shown;
}

/**
 * Formats a rate, and its fraction of the peak rate.
 * @param {number | undefined} rate
 * @param {number} unit
 * @param {string} name
 * @param {number | undefined} share
 */
function part(rate, unit, name, share) {
  if (rate === undefined) return "-";
  const of = share === undefined ? "" : ` (${Math.round(share * 100)}%)`;
  return `${(rate / unit).toPrecision(3)} ${name}${of}`;
}
