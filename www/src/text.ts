// Numbers as text, in the format of NumPy's `array2string`.

import type { DType } from "./data.js";
import { checked, refused } from "./host.js";

/** The options of {@link Tensor.text}. */
export interface TextOptions {
  /** The most decimals of a number, an integer from 0 to 100. Default: 8. */
  precision?: number;
  /**
   * The most elements that are all shown. Of larger tensors, only three elements at each end of an axis are shown. Default:
   * 1000.
   */
  threshold?: number;
}

/** Returns the largest of `first` and the numbers. A call with very many arguments would overflow the stack. */
const largestOf = (first: number, numbers: readonly number[]) => numbers.reduce((a, b) => Math.max(a, b), first);

/** The columns of a line, and the elements at each end of a shortened axis. */
const [COLUMNS, EDGE] = [75, 3];

/** Formats the element at a position. */
type Format = (at: number) => string;

/** Formats row-major elements as text. */
export function show(list: ArrayLike<number>, shape: readonly number[], dtype: DType, options?: TextOptions): string {
  const { precision = 8, threshold = 1000 } = checked("text", options, ["precision", "threshold"]);
  // `toFixed` has at most 100 decimals.
  const isPrecision = Number.isInteger(precision) && precision >= 0 && precision <= 100;
  if (!isPrecision) throw refused("text", "precision", "an integer from 0 to 100", precision);
  if (typeof threshold !== "number" || Number.isNaN(threshold)) throw refused("text", "threshold", "a number", threshold);
  if (list.length === 0) return "[]";
  const short = list.length > threshold;
  const shown = shownPositions(shape, short);
  const format = formatOf(list, shown, dtype, precision);
  if (shape.length === 0) return format(0).trim();
  return nested({ shape, short, format }, 0, 0, " ");
}

/** Returns the positions along an axis that are shown. */
function along(extent: number, short: boolean): number[] {
  const all = Array.from({ length: extent }, (_, i) => i);
  return short && extent > 2 * EDGE ? [...all.slice(0, EDGE), ...all.slice(-EDGE)] : all;
}

/** Returns the positions of the shown elements. */
function shownPositions(shape: readonly number[], short: boolean): number[] {
  let found = [0];
  for (const extent of shape) found = found.flatMap((start) => along(extent, short).map((i) => start * extent + i));
  return found;
}

/** The shown tensor, and its format. */
interface Shown {
  shape: readonly number[];
  short: boolean;
  format: Format;
}

/** Formats the elements from `start` on, nested from an axis on. */
function nested(shown: Shown, axis: number, start: number, indent: string): string {
  const { shape, short, format } = shown;
  const extent = shape[axis];
  if (extent === undefined) return format(start);
  const width = COLUMNS - axis;
  const words = along(extent, short).map((i) => nested(shown, axis + 1, start * extent + i, `${indent} `));
  if (words.length < extent) words.splice(EDGE, 0, "...");
  const left = shape.length - axis;
  if (left > 1) return `[${words.join("\n".repeat(left - 1) + indent)}]`;
  let text = "";
  let line = indent;
  words.forEach((word, i) => {
    if (line.length > indent.length && line.length + word.length > width - 1) {
      text += `${line.trimEnd()}\n`;
      line = indent;
    }
    line += i < words.length - 1 ? `${word} ` : word;
  });
  return `[${(text + line).slice(indent.length)}]`;
}

function formatOf(list: ArrayLike<number>, shown: readonly number[], dtype: DType, precision: number): Format {
  if (dtype === "f32" || dtype === "f16") return formatOfFloats(list, shown, dtype, precision);
  const word = (at: number) => (dtype === "bool" ? (list[at] ? "True" : "False") : String(list[at]));
  const width = largestOf(0, shown.map((at) => word(at).length));
  return (at) => word(at).padStart(width);
}

function formatOfFloats(list: ArrayLike<number>, shown: readonly number[], dtype: "f32" | "f16", precision: number): Format {
  const numbers = shown.map((at) => list[at]!);
  const sizes = numbers.filter((x) => Number.isFinite(x) && x !== 0).map(Math.abs);
  const [least, largest] = [sizes.reduce((a, b) => Math.min(a, b), Infinity), largestOf(0, sizes)];
  const byPower = sizes.length > 0 && (largest >= 1e8 || least < 1e-4 || largest / least > 1000);
  const digits = (x: number) => (byPower ? power(shortest(x, dtype), precision) : fixed(shortest(x, dtype), precision));
  const parts = numbers.filter(Number.isFinite).map((x) => digits(x).split("."));
  const before = largestOf(0, parts.map(([whole]) => whole!.length));
  const after = largestOf(0, parts.map(([, rest]) => (byPower ? rest!.split("e")[0]! : rest!).length));
  const tail = byPower ? largestOf(0, parts.map(([, rest]) => rest!.split("e")[1]!.length + 1)) : 0;
  const odd = numbers.filter((x) => !Number.isFinite(x)).map((x) => oddWord(x).length);
  const width = largestOf(before + 1 + after + tail, odd);
  return (at) => {
    const x = list[at]!;
    if (!Number.isFinite(x)) return oddWord(x).padStart(width);
    const [whole, rest] = digits(x).split(".");
    if (!byPower) return `${whole}.${rest!.padEnd(after)}`.padStart(width);
    const [fraction, exponent] = rest!.split("e");
    return `${whole}.${fraction!.padEnd(after, "0")}e${exponent}`.padStart(width);
  };
}

const oddWord = (x: number) => (Number.isNaN(x) ? "nan" : x < 0 ? "-inf" : "inf");

/** Returns the number with the fewest digits that is stored as this number. */
function shortest(x: number, dtype: "f32" | "f16"): number {
  if (x === 0) return x;
  // Half of the distance between neighboring `f16` numbers.
  const near = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(x))), -14) - 11);
  for (let digits = 1; digits < 10; digits++) {
    const candidate = Number(x.toPrecision(digits));
    if (dtype === "f32" ? Math.fround(candidate) === x : Math.abs(candidate - x) < near) return candidate;
  }
  return x;
}

/** Formats a number with a fixed point: `2.5`, `3.`. */
function fixed(x: number, precision: number): string {
  const text = x !== 0 && Math.abs(x) < 1e-6 ? x.toFixed(precision) : String(x);
  const long = (text.split(".")[1] ?? "").length > precision;
  const kept = long ? x.toFixed(precision).replace(/0+$/, "") : text;
  const whole = kept.includes(".") ? kept : `${kept}.`;
  return Object.is(x, -0) ? `-${whole}` : whole;
}

/** Formats a number with an exponent: `2.5e+00`. */
function power(x: number, precision: number): string {
  const exact = x.toExponential();
  const long = (exact.split("e")[0]!.split(".")[1] ?? "").length > precision;
  const [mantissa, exponent] = (long ? x.toExponential(precision) : exact).split("e");
  const [sign, count] = [exponent![0], exponent!.slice(1)];
  const digits = mantissa!.includes(".") ? mantissa : `${mantissa}.`;
  return `${Object.is(x, -0) ? "-" : ""}${digits}e${sign}${count.padStart(2, "0")}`;
}
