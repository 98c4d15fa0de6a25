// A pad to draw a digit on, and its conversion to 8 x 8 numbers for the net.

import { colour, sheet } from "./ink.js";

/** The width of a line in a picture of width 32, as in the data set. */
const pen = 4;

/** @typedef {[x: number, y: number]} Point on the pad, from 0 to 1. */

export class Pad {
  /** The drawn lines. @type {Point[][]} */
  #lines = [];
  #canvas;
  #changed;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => void} changed is called after each piece of a line.
   */
  constructor(canvas, changed) {
    this.#canvas = canvas;
    this.#changed = changed;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#lines.push([]);
      this.#add(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) this.#add(event);
    });
  }

  /** Whether the pad is empty. */
  get empty() {
    return this.#lines.length === 0;
  }

  clear() {
    this.#lines = [];
    this.draw();
  }

  draw() {
    const { context, width } = sheet(this.#canvas);
    context.strokeStyle = colour("--ink");
    stroke(context, this.#lines, (width * pen) / 40, ([x, y]) => [x * width, y * width]);
  }

  /**
   * Converts the drawing as the data set was made. It is scaled to a square of 32 x 32 dots. Each block of 4 x 4 dots becomes
   * one number: the fraction of ink, rounded to sixteenths.
   * @returns {Float32Array}
   */
  pixels() {
    const points = this.#lines.flat();
    const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    // A small dot must not be scaled to fill the square.
    const scale = (32 - pen) / Math.max(right - left, bottom - top, 0.2);
    const context = new OffscreenCanvas(32, 32).getContext("2d", { willReadFrequently: true });
    if (!context) throw new Error("the browser gives no canvas to draw on");
    stroke(context, this.#lines, pen, ([x, y]) => [
      16 + (x - (left + right) / 2) * scale,
      16 + (y - (top + bottom) / 2) * scale,
    ]);
    const { data } = context.getImageData(0, 0, 32, 32);
    const pixels = new Float32Array(64);
    for (let n = 0; n < 32 * 32; n++) pixels[8 * (n >> 7) + ((n & 31) >> 2)] += data[4 * n + 3] / 255 / 16;
    return pixels.map((ink) => Math.round(16 * ink) / 16);
  }

  /** @param {PointerEvent} event */
  #add({ clientX, clientY }) {
    const { left, top, width, height } = this.#canvas.getBoundingClientRect();
    this.#lines.at(-1)?.push([(clientX - left) / width, (clientY - top) / height]);
    this.draw();
    this.#changed();
  }
}

/**
 * @param {CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D} context
 * @param {Point[][]} lines
 * @param {number} width
 * @param {(point: Point) => Point} to
 */
function stroke(context, lines, width, to) {
  context.lineWidth = width;
  context.lineCap = context.lineJoin = "round";
  for (const line of lines) {
    context.beginPath();
    context.moveTo(...to(line[0]));
    for (const point of line) context.lineTo(...to(point));
    context.stroke();
  }
}

/**
 * Draws 8 x 8 numbers, from 0 (paper) to 1 (ink).
 * @param {HTMLCanvasElement} canvas
 * @param {ArrayLike<number>} pixels
 */
export function drawPixels(canvas, pixels) {
  if (canvas.width !== 8) Object.assign(canvas, { width: 8, height: 8 });
  const context = canvas.getContext("2d");
  context?.clearRect(0, 0, 8, 8);
  for (let n = 0; n < 64; n++) {
    if (!context || !(pixels[n] > 0)) continue;
    context.globalAlpha = pixels[n];
    context.fillStyle = colour("--ink");
    context.fillRect(n % 8, n >> 3, 1, 1);
  }
}
