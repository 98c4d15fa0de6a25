// The attention weights as a table of colored cells.

import { byId, make } from "./dom.js";

/**
 * @param {string[]} words
 * @param {Float32Array} weights of a head, `[words, words]`
 */
export function showHeat(words, weights) {
  const head = words.map((word) => make("th", { scope: "col" }, make("span", {}, word)));
  const rows = words.map((word, row) => {
    const cells = words.map((seen, column) => {
      const weight = weights[row * words.length + column];
      const text = `${word} attends to ${seen}: ${(100 * weight).toFixed(1)} %`;
      const cell = make("td", { title: text, "aria-label": text });
      // The square root makes small weights visible, too.
      cell.style.setProperty("--weight", Math.sqrt(weight).toFixed(3));
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row" }, word), ...cells);
  });
  const caption = make("caption", { class: "hidden" }, "Attention of each word");
  const top = make("thead", {}, make("tr", {}, make("td"), ...head));
  byId("heat", HTMLTableElement).replaceChildren(caption, top, make("tbody", {}, ...rows));
}
