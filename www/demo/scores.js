// Displays of a net's results for digits: probabilities, the confusion matrix, and misread images.

import { byId, make } from "./dom.js";
import { drawPixels } from "./pad.js";

/** @import { Images } from "./strokes.js" */

const ten = Array.from({ length: 10 }, (_, n) => n);

/** Returns the position of the largest score. @param {Float32Array} scores */
export const best = (scores) => scores.indexOf(Math.max(...scores));

/** Returns the ten scores of an image. @param {Float32Array} scores @param {number} n */
export const scoresOf = (scores, n) => scores.subarray(10 * n, 10 * (n + 1));

/**
 * Shows the probability of each digit, or nothing without scores.
 * @param {Float32Array | undefined} scores
 */
export function showGuess(scores) {
  const exps = scores && [...scores].map((score) => Math.exp(score - Math.max(...scores)));
  const sum = exps?.reduce((sum, x) => sum + x, 0) ?? 1;
  const guess = scores && best(scores);
  byId("guess", HTMLElement).textContent = guess === undefined ? "?" : `${guess}`;
  const rows = ten.map((digit) => {
    const share = exps ? exps[digit] / sum : 0;
    const bar = make("div", { style: `--share: ${share.toFixed(3)}` });
    const row = make("tr", digit === guess ? { class: "best" } : {}, make("th", { scope: "row" }, `${digit}`));
    row.append(make("td", {}, bar), make("td", {}, exps ? `${(100 * share).toFixed(1)} %` : "–"));
    return row;
  });
  byId("bars", HTMLTableSectionElement).replaceChildren(...rows);
}

/**
 * Computes and shows the confusion matrix. A row is the true digit, and a column is the net's answer.
 * @param {Float32Array} scores
 * @param {Int32Array} labels
 * @returns {number} the accuracy, from 0 to 1.
 */
export function showConfusion(scores, labels) {
  const counts = ten.map(() => ten.map(() => 0));
  labels.forEach((label, n) => (counts[label][best(scoresOf(scores, n))] += 1));
  const head = make("tr", {}, make("th"), ...ten.map((digit) => make("th", { scope: "col" }, `${digit}`)));
  const rows = counts.map((row, digit) => {
    const all = row.reduce((sum, x) => sum + x, 0);
    const cells = row.map((count, predicted) => {
      const title = `${count} of ${all} images of ${digit} are classified as ${predicted}`;
      // The square root makes a single wrong image visible, too.
      const style = `--share: ${Math.sqrt(count / Math.max(1, all)).toFixed(3)}`;
      return make("td", { title, style, ...(digit === predicted ? {} : { class: "wrong" }) }, count ? `${count}` : "");
    });
    return make("tr", {}, make("th", { scope: "row" }, `${digit}`), ...cells);
  });
  byId("confusion", HTMLTableElement).replaceChildren(head, ...rows);
  return counts.reduce((sum, row, digit) => sum + row[digit], 0) / labels.length;
}

/**
 * Shows the first twelve misread images.
 * @param {Float32Array} scores
 * @param {Int32Array} labels
 * @param {Float32Array} images
 */
export function showMisread(scores, labels, images) {
  const wrong = [...labels.keys()].filter((n) => best(scoresOf(scores, n)) !== labels[n]);
  const shown = wrong.slice(0, 12).map((n) => picture(images, n, `${labels[n]} as ${best(scoresOf(scores, n))}`));
  byId("misread", HTMLElement).replaceChildren(...shown);
  byId("misread-count", HTMLElement).textContent = `${wrong.length} of ${labels.length} test images are misclassified`;
}

/** Shows the first and the last image of each digit, because these may be from different data. @param {Images} images */
export function showExamples({ pixels, digits }) {
  const first = ten.map((digit) => picture(pixels, digits.indexOf(digit), `${digit}`));
  const last = ten.map((digit) => picture(pixels, digits.lastIndexOf(digit), `${digit}`));
  byId("examples", HTMLElement).replaceChildren(...first, ...last);
}

/**
 * Makes an image with a caption.
 * @param {Float32Array} images
 * @param {number} n
 * @param {string} caption
 */
function picture(images, n, caption) {
  const canvas = make("canvas", { class: "pixels", role: "img", "aria-label": `An image of ${caption}` });
  drawPixels(canvas, images.subarray(64 * n, 64 * (n + 1)));
  return make("figure", {}, canvas, make("span", {}, caption));
}
