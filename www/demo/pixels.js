// Square pictures to learn, as numbers: drawn by code or chosen by the user. Also measures how close a copy is.

import { picture as lake } from "./picture.js";

/** @import { Picture } from "./engine.js" */

/**
 * The page's pictures. Each function draws on a square of 1 by 1.
 * @type {Record<string, (c: OffscreenCanvasRenderingContext2D) => void>}
 */
const drawn = {
  sign(c) {
    c.fillStyle = "#f7e7c4";
    c.fillRect(0, 0, 1, 1);
    disc(c, "#d8572a", 0.3, 0.3, 0.2);
    disc(c, "#f7e7c4", 0.3, 0.3, 0.09);
    shape(c, "#0d7a6b", [[0.56, 0.48], [0.74, 0.1], [0.92, 0.48]]);
    c.fillStyle = "#2b4c7e";
    for (let n = 0; n < 5; n++) c.fillRect(0.1 + 0.165 * n, 0.86, 0.09, 0.07);
    word(c, "#16282e", "weft", 0.5, 0.71, 0.34);
  },
  threads(c) {
    const [warp, weft] = [["#0d7a6b", "#58c4b2"], ["#b86a05", "#f2b25c"]];
    const count = 9;
    c.fillStyle = "#16282e";
    c.fillRect(0, 0, 1, 1);
    for (let row = 0; row < count; row++) {
      for (let column = 0; column < count; column++) {
        const [x, y] = [column / count, row / count];
        /** @type {[string[], number[]][]} */
        const pieces = [[warp, [x + 0.012, y - 0.01, 0.087, 0.131]], [weft, [x - 0.01, y + 0.012, 0.131, 0.087]]];
        for (const [colours, box] of (row + column) % 2 ? pieces : pieces.reverse()) {
          const [left, top, wide, high] = box;
          const along = c.createLinearGradient(left, top, wide < high ? left + wide : left, wide < high ? top : top + high);
          [0, 0.5, 1].forEach((at, n) => along.addColorStop(at, colours[n % 2]));
          c.fillStyle = along;
          c.fillRect(left, top, wide, high);
        }
      }
    }
  },
  rings(c) {
    const sky = c.createLinearGradient(0, 0, 1, 1);
    ["#2b2d6e", "#a23b72", "#f2b25c"].forEach((colour, n) => sky.addColorStop(n / 2, colour));
    c.fillStyle = sky;
    c.fillRect(0, 0, 1, 1);
    // The rings become narrower outwards, so a better net shows more of them.
    c.strokeStyle = "#fff6e0";
    for (let n = 1; n < 16; n++) {
      c.lineWidth = 0.032 / Math.sqrt(n);
      c.beginPath();
      c.arc(0.5, 0.5, 0.13 * n ** 0.58, 0, 2 * Math.PI);
      c.stroke();
    }
  },
};

/** The displayed names of the pictures. @type {Record<string, string>} */
export const names = { sign: "Shapes and a word", lake: "A lake", threads: "Threads", rings: "Rings" };

/**
 * Draws a picture of the page.
 * @param {string} name
 * @param {number} side
 * @returns {Picture}
 */
export function own(name, side) {
  // The middle part of the lake is used. It is drawn at twice the resolution, because its noise has single pixels.
  if (name === "lake") return { pixels: lake(3 * side, 2 * side), width: 3 * side, height: 2 * side };
  const context = square(side);
  context.scale(side, side);
  drawn[name](context);
  return { pixels: context.getImageData(0, 0, side, side).data, width: side, height: side };
}

/**
 * Converts the middle of a picture to a square of `side` pixels per row, on white. Each pixel has three numbers from 0 to 1.
 * @param {Picture} picture
 * @param {number} side
 */
export function numbersOf({ pixels, width, height }, side) {
  const whole = new OffscreenCanvas(width, height);
  whole.getContext("2d")?.putImageData(new ImageData(pixels, width, height), 0, 0);
  const context = square(side);
  const part = Math.min(width, height);
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, side, side);
  context.imageSmoothingQuality = "high";
  context.drawImage(whole, (width - part) / 2, (height - part) / 2, part, part, 0, 0, side, side);
  const { data } = context.getImageData(0, 0, side, side);
  const numbers = new Float32Array(3 * side * side);
  for (let n = 0; n < numbers.length; n++) numbers[n] = data[4 * Math.trunc(n / 3) + (n % 3)] / 255;
  return numbers;
}

/**
 * Converts red, green and blue from 0 to 1 to a canvas.
 * @param {Float32Array} numbers
 * @param {number} side
 */
export function pictureOf(numbers, side) {
  const context = square(side);
  const image = context.createImageData(side, side);
  for (let n = 0; n < side * side; n++) {
    for (let i = 0; i < 3; i++) image.data[4 * n + i] = Math.round(255 * numbers[3 * n + i]);
    image.data[4 * n + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return context.canvas;
}

/**
 * Returns the centers of `side` by `side` pixels in a square of the plane, `[side * side, 2]`, row by row. The whole picture
 * extends from -1 to 1.
 * @param {number} side
 * @param {number} left
 * @param {number} top
 * @param {number} wide
 */
export function placesOf(side, left = -1, top = -1, wide = 2) {
  const positions = new Float32Array(2 * side * side);
  for (let n = 0; n < side * side; n++) {
    positions[2 * n] = left + (((n % side) + 0.5) / side) * wide;
    positions[2 * n + 1] = top + ((Math.trunc(n / side) + 0.5) / side) * wide;
  }
  return positions;
}

/**
 * Returns the peak signal-to-noise ratio in decibels, `-10 log10(mean of squared differences)`. White is 1.
 * @param {Float32Array} copy
 * @param {Float32Array} numbers
 */
export function psnr(copy, numbers) {
  const sum = numbers.reduce((sum, value, n) => sum + (value - copy[n]) ** 2, 0);
  return -10 * Math.log10(sum / numbers.length);
}

/** @param {number} side */
function square(side) {
  const context = new OffscreenCanvas(side, side).getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error("the browser gives no canvas to draw on");
  return context;
}

function disc(c, colour, x, y, radius) {
  c.fillStyle = colour;
  c.beginPath();
  c.arc(x, y, radius, 0, 2 * Math.PI);
  c.fill();
}

function shape(c, colour, corners) {
  c.fillStyle = colour;
  c.beginPath();
  for (const corner of corners) c.lineTo(...corner);
  c.fill();
}

/** Draws a centered word. Letters are drawn large and scaled down, because fonts below one pixel are not drawn. */
function word(c, colour, text, x, y, size) {
  c.save();
  c.fillStyle = colour;
  c.font = "bold 100px Georgia, serif";
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.translate(x, y);
  c.scale(size / 100, size / 100);
  c.fillText(text, 0, 0);
  c.restore();
}
