// The editor for the chain of filters.

import { button, byId, make } from "./dom.js";
import { filters, names, usual, usualStrength } from "./image.js";

/** @import { Filter, FilterName } from "./image.js" */

/** The preset chains. @type {Record<string, [FilterName, number?][]>} */
const presets = {
  Pencil: usual.map(({ name, strength }) => [name, strength]),
  Dusk: [["brightness", -0.12], ["gamma", 1.2], ["contrast", 6]],
  Mist: [["blur", 6], ["brightness", 0.18], ["gamma", 0.8]],
  Relief: [["grayscale"], ["blur", 1], ["emboss", 2], ["contrast", 5]],
  Neon: [["blur", 1], ["edges", 4], ["gamma", 0.6]],
  Crisp: [["gamma", 0.8], ["blur", 1], ["sharpen", 2.5], ["contrast", 5]],
  Nothing: [],
};

export class ChainEditor {
  #list = byId("chain", HTMLOListElement);
  #empty = byId("chain-empty", HTMLElement);
  #changed;
  /** @type {Filter[]} */
  chain = [];

  /** @param {() => void} changed is called when the chain has changed. */
  constructor(changed) {
    this.#changed = changed;
    for (const name of names()) {
      const add = () => this.#set([...this.chain, { name, strength: usualStrength(name) }]);
      byId("add", HTMLElement).append(button(filters[name].title, add, { "data-filter": name }));
    }
    for (const [title, preset] of Object.entries(presets)) {
      const chain = preset.map(([name, strength]) => ({ name, strength: strength ?? usualStrength(name) }));
      byId("presets", HTMLElement).append(button(title, () => this.#set(chain), { "data-preset": title }));
    }
    this.chain = usual;
    this.#show();
  }

  /** @param {Filter[]} chain */
  #set(chain) {
    this.chain = chain;
    this.#show();
    this.#changed();
  }

  #show() {
    this.#list.replaceChildren(...this.chain.map((filter, at) => this.#item(filter, at)));
    this.#empty.hidden = this.chain.length > 0;
  }

  /**
   * @param {Filter} filter
   * @param {number} at
   */
  #item(filter, at) {
    const { title } = filters[filter.name];
    const last = this.chain.length - 1;
    const moves = make(
      "span",
      { class: "moves" },
      this.#move("↑", `Move ${title} up`, at, at - 1, at === 0),
      this.#move("↓", `Move ${title} down`, at, at + 1, at === last),
      button("✕", () => this.#set(this.chain.filter((_, i) => i !== at)), { "aria-label": `Remove ${title}` }),
    );
    return make("li", { "data-filter": filter.name }, make("span", {}, title), ...this.#slider(filter, at), moves);
  }

  /**
   * @param {string} text
   * @param {string} label
   * @param {number} from
   * @param {number} to
   * @param {boolean} off
   */
  #move(text, label, from, to, off) {
    const act = () => {
      const chain = this.chain.filter((_, i) => i !== from);
      chain.splice(to, 0, this.chain[from]);
      this.#set(chain);
      // The keyboard focus stays on the filter that was moved.
      const moved = this.#list.children[to]?.querySelectorAll("button") ?? [];
      [...moved].find((b) => b.textContent === text && !b.disabled)?.focus();
    };
    const element = button(text, act, { "aria-label": label });
    element.disabled = off;
    return element;
  }

  /**
   * @param {Filter} filter
   * @param {number} at
   */
  #slider(filter, at) {
    const about = filters[filter.name];
    if (!("strength" in about)) return [];
    const [, min, max, step] = about.strength;
    const unit = "unit" in about ? ` ${about.unit}` : "";
    const shown = make("output", {}, `${filter.strength}${unit}`);
    const range = { type: "range", min: `${min}`, max: `${max}`, step: `${step}`, "aria-label": about.title };
    const slider = make("input", { ...range, value: `${filter.strength}` });
    slider.addEventListener("input", () => {
      const strength = slider.valueAsNumber;
      shown.textContent = `${strength}${unit}`;
      this.chain = this.chain.map((other, i) => (i === at ? { ...other, strength } : other));
      this.#changed();
    });
    return [slider, shown];
  }
}
