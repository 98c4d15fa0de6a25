// A plot of losses by step.

import { colour, sheet } from "./ink.js";

/** The most points of a line. When there are more, every other point is dropped. */
const most = 400;
const margin = { left: 34, right: 8, top: 8, bottom: 20 };

export class Curve {
  #canvas;
  /** The lines, with their steps and losses. A line's color is a variable of the style sheet. */
  #lines;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {string[]} colours
   */
  constructor(canvas, colours) {
    this.#canvas = canvas;
    this.#lines = colours.map((name) => ({ name, points: /** @type {[number, number][]} */ ([]) }));
  }

  /** The number of points in all lines. */
  get size() {
    return this.#lines.reduce((sum, { points }) => sum + points.length, 0);
  }

  clear() {
    for (const line of this.#lines) line.points = [];
  }

  /**
   * @param {number} line
   * @param {number} step
   * @param {number | undefined} loss
   */
  add(line, step, loss) {
    if (loss === undefined || !Number.isFinite(loss)) return;
    const { points } = this.#lines[line];
    points.push([step, loss]);
    if (points.length > most) this.#lines[line].points = points.filter((_, n) => n % 2 === 0 || n > most - 2);
  }

  draw() {
    const { context, width, height } = sheet(this.#canvas);
    const all = this.#lines.flatMap(({ points }) => points);
    const end = Math.max(10, ...all.map(([step]) => step));
    const top = nice(Math.max(0.1, ...all.map(([, loss]) => loss)));
    const x = (/** @type {number} */ step) => margin.left + (step / end) * (width - margin.left - margin.right);
    const y = (/** @type {number} */ loss) => height - margin.bottom - (loss / top) * (height - margin.top - margin.bottom);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colour("--faint");
    context.strokeStyle = colour("--line");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const part of [0, 0.5, 1]) {
      context.beginPath();
      context.moveTo(margin.left, y(part * top));
      context.lineTo(width - margin.right, y(part * top));
      context.stroke();
      context.fillText(`${Number((part * top).toPrecision(3))}`, margin.left - 5, y(part * top));
    }
    context.textBaseline = "bottom";
    context.fillText(`step ${end.toLocaleString("en")}`, width - margin.right, height - 2);
    context.lineWidth = 2;
    context.lineJoin = "round";
    for (const { name, points } of this.#lines) {
      context.strokeStyle = colour(name);
      context.beginPath();
      for (const [step, loss] of points) context.lineTo(x(step), y(loss));
      context.stroke();
    }
  }
}

/** Returns the next round number. @param {number} value */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 1.5, 2, 2.5, 3, 4, 5, 6, 8].find((n) => n * power >= value) ?? 10);
}
