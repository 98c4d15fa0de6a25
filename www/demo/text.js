// A text as numbers, random pieces of it, and sampling of the next character.

export class Text {
  /** The distinct characters of the text, in order. @type {string[]} */
  known;
  /** The text, as positions in that list. @type {Int32Array} */
  numbers;
  #number;

  /** @param {string} text */
  constructor(text) {
    const all = [...text];
    // Sorted by code point, as in `warpweft train chars`.
    this.known = [...new Set(all)].sort((a, b) => Number(a.codePointAt(0)) - Number(b.codePointAt(0)));
    this.#number = new Map(this.known.map((character, n) => [character, n]));
    this.numbers = this.encode(all);
  }

  /**
   * Converts characters to numbers. Unknown characters are left out.
   * @param {Iterable<string>} characters
   */
  encode(characters) {
    return Int32Array.from([...characters].map((one) => this.#number.get(one) ?? -1).filter((number) => number >= 0));
  }

  /** @param {number} number */
  decode(number) {
    return this.known[number] ?? "";
  }

  /**
   * Returns `count` pieces of `length` characters, one after the other, from random positions between two places.
   * @param {number} count
   * @param {number} length
   * @param {[from: number, to: number]} between
   * @param {() => number} random
   */
  pieces(count, length, [from, to], random) {
    const pieces = new Int32Array(count * length);
    for (let n = 0; n < count; n++) {
      const start = from + Math.trunc(random() * (to - from - length + 1));
      pieces.set(this.numbers.subarray(start, start + length), n * length);
    }
    return pieces;
  }
}

/**
 * Samples a position from the softmax of `scores / temperature`.
 * @param {Float32Array} scores
 * @param {number} temperature
 * @param {number} random a number from 0 to 1.
 */
export function draw(scores, temperature, random) {
  const most = Math.max(...scores);
  const shares = [...scores].map((score) => Math.exp((score - most) / temperature));
  let left = random * shares.reduce((sum, share) => sum + share, 0);
  const found = shares.findIndex((share) => (left -= share) < 0);
  return found < 0 ? scores.indexOf(most) : found;
}
