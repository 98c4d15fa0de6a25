// Helpers for the page's elements.

/**
 * Returns the element with this id. Throws if it does not exist or has another class.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${type.name} called ${id}`);
  return found;
}

/**
 * Makes an element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/**
 * Makes a button.
 * @param {string} text
 * @param {() => void} act
 * @param {Record<string, string>} [attributes]
 */
export function button(text, act, attributes = {}) {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", act);
  return element;
}

/**
 * Returns a function that runs `work`, and once more at its end if it was called meanwhile. Its promise resolves when nothing
 * is left to do. `idle` returns the same promise without starting anything.
 * @param {() => Promise<unknown>} work
 */
export function latest(work) {
  /** @type {Promise<void> | undefined} */
  let running;
  let again = false;
  const run = async () => {
    try {
      while (again) {
        again = false;
        await work();
      }
    } finally {
      running = undefined;
    }
  };
  const start = () => {
    again = true;
    return (running ??= run());
  };
  return Object.assign(start, { idle: () => running });
}

/** @param {number | undefined} ms */
export const milliseconds = (ms) => (ms === undefined ? "…" : `${ms < 10 ? ms.toFixed(2) : ms.toFixed(1)} ms`);

/**
 * Formats a small number: 1.2 × 10⁻⁶.
 * @param {number} value
 */
export function tiny(value) {
  if (value === 0 || !Number.isFinite(value)) return `${value}`;
  const [digits, power] = value.toExponential(1).split("e");
  const raised = [...power.replace("+", "")].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)]));
  return `${digits} × 10${raised.join("")}`;
}
