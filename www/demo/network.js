// A picture of a net: each neuron's output over the plane, and the weights between the neurons.

import { colour, HeatMap, sheet } from "./ink.js";

/**
 * The values of a layer to draw. `outputs` are the neurons' outputs at each position of the plane, `[positions, neurons]`, and
 * `weights` are `[neurons, inputs]`.
 * @typedef {{ outputs: Float32Array, weights: Float32Array }} LayerValues
 */

export class NetPicture {
  #canvas;
  #map;
  #side;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {number} side the positions in a row of the plane.
   */
  constructor(canvas, side) {
    this.#canvas = canvas;
    this.#side = side;
    this.#map = new HeatMap(side);
  }

  /** @param {LayerValues[]} layers */
  draw(layers) {
    const { context, width, height } = sheet(this.#canvas);
    const positions = this.#side ** 2;
    const sizes = [2, ...layers.map(({ outputs }) => outputs.length / positions)];
    const tile = Math.min(48, (0.55 * width) / sizes.length, (0.84 * (height - 18)) / Math.max(...sizes));
    /** @type {(column: number, row: number) => [number, number]} */
    const centre = (column, row) => [
      tile / 2 + 2 + (column * (width - tile - 4)) / (sizes.length - 1),
      18 + ((row + 0.5) * (height - 18)) / sizes[column],
    ];
    layers.forEach(({ weights }, n) => {
      this.#wires(context, weights, sizes[n], (row) => centre(n, row), (row) => centre(n + 1, row));
    });
    const along = (/** @type {number} */ n) => (2 * n) / (this.#side - 1) - 1;
    const inputs = [(index) => along(index % this.#side), (index) => -along(Math.floor(index / this.#side))];
    inputs.forEach((value, row) => this.#tile(context, centre(0, row), tile, value));
    layers.forEach(({ outputs }, n) => {
      const count = sizes[n + 1];
      const last = n === layers.length - 1;
      for (let row = 0; row < count; row++) {
        let largest = 1e-6;
        for (let index = row; index < outputs.length; index += count) largest = Math.max(largest, Math.abs(outputs[index]));
        // The last output is a logit, and is shown as a probability.
        const value = (index) => (last ? Math.tanh(outputs[index] / 2) : outputs[index * count + row] / largest);
        this.#tile(context, centre(n + 1, row), tile, value);
      }
    });
    context.fillStyle = colour("--faint");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    sizes.forEach((_, column) => {
      context.textAlign = column === 0 ? "left" : column === sizes.length - 1 ? "right" : "center";
      const names = column === 0 ? "x, y" : column === sizes.length - 1 ? "output" : `layer ${column}`;
      const [middle] = centre(column, 0);
      context.fillText(names, column === 0 ? 2 : column === sizes.length - 1 ? width - 2 : middle, 0);
    });
  }

  /** Draws a line for each weight. Its color is the sign, and its width is the size. */
  #wires(context, weights, inputs, from, to) {
    const colours = [colour("--thread"), colour("--accent")];
    for (let n = 0; n < weights.length; n++) {
      const [x, y] = from(n % inputs);
      const [x2, y2] = to(Math.floor(n / inputs));
      context.strokeStyle = colours[weights[n] < 0 ? 0 : 1];
      context.globalAlpha = 0.65;
      context.lineWidth = Math.min(6, 0.3 + 1.6 * Math.abs(weights[n]));
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo((x + x2) / 2, y, (x + x2) / 2, y2, x2, y2);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  #tile(context, [x, y], size, value) {
    const [left, top] = [x - size / 2, y - size / 2];
    context.drawImage(this.#map.paint(value), left, top, size, size);
    context.strokeStyle = colour("--faint");
    context.lineWidth = 1;
    context.strokeRect(left, top, size, size);
  }
}
