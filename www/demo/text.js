// A text as numbers, pieces of it, and which character comes next.

export class Text {
  /** Each character that it has, in order. @type {string[]} */
  known;
  /** The text, as places in that list. @type {Int32Array} */
  numbers;
  #number;

  /** @param {string} text */
  constructor(text) {
    const all = [...text];
    // In the order of their numbers, as `warpweft train chars` has them.
    this.known = [...new Set(all)].sort((a, b) => Number(a.codePointAt(0)) - Number(b.codePointAt(0)));
    this.#number = new Map(this.known.map((character, n) => [character, n]));
    this.numbers = this.encode(all);
  }

  /**
   * Characters as numbers; those that it does not have are left out.
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
   * Pieces of so many characters, one after the other, from anywhere between two places.
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
 * One of many by their scores: as often as the softmax of `scores / temperature` says.
 * @param {Float32Array} scores
 * @param {number} temperature
 * @param {number} random from 0 to 1.
 */
export function draw(scores, temperature, random) {
  const most = Math.max(...scores);
  const shares = [...scores].map((score) => Math.exp((score - most) / temperature));
  let left = random * shares.reduce((sum, share) => sum + share, 0);
  const found = shares.findIndex((share) => (left -= share) < 0);
  return found < 0 ? scores.indexOf(most) : found;
}
