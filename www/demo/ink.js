// Drawing on canvases in the page's colors.

import { byId } from "./dom.js";

/**
 * Clears a canvas, and scales it so that one unit is a pixel of the page. The canvas is as wide as the page shows it. Its
 * height is the attribute `data-height`, and by default the width.
 * @param {HTMLCanvasElement} canvas
 */
export function sheet(canvas) {
  const width = Math.max(1, canvas.clientWidth);
  const height = Number(canvas.dataset.height) || width;
  const scale = Math.min(3, window.devicePixelRatio || 1);
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser gives no canvas to draw on");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** Returns a color of the style sheet. @param {string} name */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Returns a color's red, green and blue. @param {string} name */
function channels(name) {
  const text = colour(name);
  return [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
}

/**
 * A square picture of numbers, from -1 (thread) through 0 (paper) to 1 (accent).
 * @param {number} side
 */
export class HeatMap {
  canvas;
  #context;
  #image;

  /** @param {number} side the numbers in a row. */
  constructor(side) {
    this.canvas = new OffscreenCanvas(side, side);
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("the browser gives no canvas to draw on");
    this.#context = context;
    this.#image = context.createImageData(side, side);
  }

  /**
   * @param {(index: number) => number} value of a position, row by row.
   * @returns {OffscreenCanvas}
   */
  paint(value) {
    const { data } = this.#image;
    const ends = [channels("--thread"), channels("--card"), channels("--accent")];
    for (let index = 0; index < data.length / 4; index++) {
      const v = Math.max(-1, Math.min(1, value(index)));
      const end = ends[v < 0 ? 0 : 2];
      const part = 0.7 * Math.abs(v);
      for (let n = 0; n < 3; n++) data[4 * index + n] = ends[1][n] + part * (end[n] - ends[1][n]);
      data[4 * index + 3] = 255;
    }
    this.#context.putImageData(this.#image, 0, 0);
    return this.canvas;
  }
}

/**
 * Shows the source of one of the page's modules, without its first comment.
 * @param {string} id
 * @param {string} file
 */
export async function showCode(id, file) {
  const text = await (await fetch(file)).text();
  byId(id, HTMLElement).textContent = text.replace(/^\/\/.*\n\n/, "").trimEnd();
}
