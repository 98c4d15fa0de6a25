// A wasm whose instructions are sorted by what they are: all opcodes in one list, all numbers of locals in another, and
// so on. What is alike then stands together, and gzip makes an eighth less of it. The same walk takes functions apart and
// puts them together. In plain JavaScript, because the build uses it, too.

/** Before the payload of a packed wasm, which is a wasm with nothing but that payload. */
const HEAD = "\0asm\x01\0\0\0\0";
const NAME = "packed";

// The lists. Their order is that in the file: neighbours share what gzip learns of them.
// (Those of locals are read, set, and set and read.)
const LISTS = 15;
const [OPS, GET, , , BRANCHES, STORES, LOADS, INTS, LOCALS, ALIGN, OTHER, FLOATS, REST, BLOCKS, CALLS] = Array(LISTS).keys();

/** The usual alignments of the instructions from `i32.load` to `i64.store32`. */
const ALIGNMENTS = Uint8Array.from("23230011001122232301012", Number);

/** What follows an opcode: a number in the list of this number; or one of these. */
const [NOTHING, END, BLOCK, TABLE, INDIRECT, MEMORY, FLOAT, BULK, VECTOR, UNKNOWN] = Array.from({ length: 10 }, (_, i) => 32 + i);
const kinds = new Uint8Array(256).fill(NOTHING).fill(UNKNOWN, 0xc5);
/** @type {[number, number, number][]} */
const kindsOf = [
  [BLOCK, 0x02, 0x05],
  [END, 0x0b, 0x0c],
  [BRANCHES, 0x0c, 0x0e],
  [TABLE, 0x0e, 0x0f],
  [CALLS, 0x10, 0x11],
  [INDIRECT, 0x11, 0x12],
  [UNKNOWN, 0x1c, 0x1d],
  [GET, 0x20, 0x21],
  [GET + 1, 0x21, 0x22],
  [GET + 2, 0x22, 0x23],
  [OTHER, 0x23, 0x27],
  [MEMORY, 0x28, 0x3f],
  [OTHER, 0x3f, 0x41],
  [INTS, 0x41, 0x43],
  [FLOAT, 0x43, 0x45],
  [OTHER, 0xd0, 0xd1],
  [OTHER, 0xd2, 0xd3],
  [BULK, 0xfc, 0xfd],
  [VECTOR, 0xfd, 0xfe],
];
for (const [kind, first, end] of kindsOf) kinds.fill(kind, first, end);

/**
 * Bytes, and how far they were read or written.
 *
 * @typedef {{ bytes: Uint8Array, at: number }} Place
 */

/**
 * Moves code: what belongs to a list is read from that list's place in `from`, and written to that in `to`. The packed side
 * has a place for each list, and the other one the same place for all.
 */
class Mover {
  /** @param {Place[]} from @param {Place[]} to */
  constructor(from, to) {
    this.from = from;
    this.to = to;
  }

  /** Moves bytes, changed by a mask; gives the last one. @param {number} list @param {number} count */
  bytes(list, count, mask = 0) {
    const [source, target] = [/** @type {Place} */ (this.from[list]), /** @type {Place} */ (this.to[list])];
    let byte = 0;
    for (; count > 0; count--) target.bytes[target.at++] = byte = /** @type {number} */ (source.bytes[source.at++]) ^ mask;
    return byte;
  }

  /** Moves a number of as many bytes as it has. @param {number} list */
  skip(list) {
    const [source, target] = [/** @type {Place} */ (this.from[list]), /** @type {Place} */ (this.to[list])];
    for (let byte = 128; byte > 127; ) target.bytes[target.at++] = byte = /** @type {number} */ (source.bytes[source.at++]);
  }

  /** Moves a number, and gives it. @param {number} list */
  number(list) {
    const [source, target] = [/** @type {Place} */ (this.from[list]), /** @type {Place} */ (this.to[list])];
    for (let value = 0, scale = 1; ; scale *= 128) {
      if (source.at >= source.bytes.length) throw cut();
      const byte = /** @type {number} */ (source.bytes[source.at++]);
      target.bytes[target.at++] = byte;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }

  /** Moves one function's code. */
  walk() {
    for (let groups = this.number(LOCALS); groups > 0; groups--) {
      this.number(LOCALS);
      this.bytes(LOCALS, 1, 0);
    }
    const [ops, moved] = [/** @type {Place} */ (this.from[OPS]), /** @type {Place} */ (this.to[OPS])];
    for (let depth = 0; depth >= 0; ) {
      const op = (moved.bytes[moved.at++] = /** @type {number} */ (ops.bytes[ops.at++]));
      const kind = /** @type {number} */ (kinds[op]);
      if (kind === NOTHING) continue;
      if (kind < NOTHING) this.skip(kind);
      else if (kind === MEMORY) {
        this.bytes(ALIGN, 1, /** @type {number} */ (ALIGNMENTS[op - 0x28]));
        this.skip(op < 0x36 ? LOADS : STORES);
      } else if (kind === END) depth--;
      else if (kind === BLOCK) {
        depth++;
        this.number(BLOCKS);
      } else if (kind === TABLE) for (let targets = this.number(BRANCHES); targets >= 0; targets--) this.number(BRANCHES);
      else if (kind === INDIRECT) {
        this.number(OTHER);
        this.number(OTHER);
      } else if (kind === FLOAT) this.bytes(FLOATS, op === 0x43 ? 4 : 8, 0);
      else if (kind === BULK) {
        const bulk = this.number(OTHER);
        if (bulk >= 8) this.number(OTHER);
        if (bulk === 8 || bulk === 10 || bulk === 12 || bulk === 14) this.number(OTHER);
      } else if (kind === VECTOR) {
        const vector = this.number(OPS);
        const lane = vector >= 84 && vector <= 91;
        if (vector <= 11 || vector === 92 || vector === 93 || lane) {
          this.bytes(ALIGN, 1, 0);
          this.number(LOADS);
        }
        if (vector === 12 || vector === 13) this.bytes(FLOATS, 16, 0);
        else if ((vector >= 21 && vector <= 34) || lane) this.bytes(OTHER, 1, 0);
      } else throw new Error(`packed: no instruction ${op}`);
    }
  }
}

/** The error for a file that ends in the middle of something: not all of it was loaded, or it is none of ours. */
const cut = () => new Error("packed: it ends too early");

/** Reads a number. @param {Place} place */
function read(place) {
  for (let value = 0, scale = 1; ; scale *= 128) {
    const [byte = 0] = piece(place, 1);
    value += (byte & 127) * scale;
    if (byte < 128) return value;
  }
}

/** Takes the next bytes. @param {Place} place @param {number} length */
function piece(place, length) {
  if (place.at + length > place.bytes.length) throw cut();
  return place.bytes.subarray(place.at, (place.at += length));
}

/** A number as wasm writes it. @param {number} number @returns {number[]} */
export const leb = (number) => (number < 128 ? [number] : [(number % 128) + 128, ...leb(Math.floor(number / 128))]);

/** @param {string} text */
const ascii = (text) => new TextEncoder().encode(text);

/** The same for every list. @template T @param {(list: number) => T} make */
const each = (make) => Array.from({ length: LISTS }, (_, list) => make(list));

/**
 * The wasm that was packed; what was not stays as it is.
 *
 * @param {Uint8Array<ArrayBuffer>} packed
 */
export function unpack(packed) {
  const head = { bytes: packed, at: HEAD.length };
  if (packed[8] !== 0 || !read(head) || String.fromCharCode(...piece(head, read(head))) !== NAME) return packed;
  const [size, before, functions, opcodes] = [read(head), read(head), read(head), read(head)];
  if (Math.max(size, opcodes) > 16 * packed.length) throw new Error(`packed: ${size} bytes do not come from ${packed.length}`);
  /** @type {number[][]} */
  const spelled = Array.from({ length: 256 }, (_, byte) => [byte]);
  for (let pairs = read(head); pairs > 0; pairs--) {
    const [pair = 0, ...two] = piece(head, 3);
    const word = (spelled[pair] = two.flatMap((byte) => spelled[byte] ?? []));
    if (word.length > opcodes) throw cut();
  }
  /** @type {Place[]} */
  const from = each(() => ({ bytes: packed, at: read(head) }));
  for (const place of from) place.bytes = piece(head, place.at);
  for (const place of from) place.at = 0;
  const ops = { bytes: new Uint8Array(opcodes), at: 0 };
  // Counted, not iterated: this is run once, by an interpreter.
  const pairs = /** @type {Place} */ (from[OPS]).bytes;
  for (let at = 0; at < pairs.length; at++) {
    const word = /** @type {number[]} */ (spelled[/** @type {number} */ (pairs[at])]);
    for (let i = 0; i < word.length; i++) ops.bytes[ops.at++] = /** @type {number} */ (word[i]);
  }
  ops.at = 0;
  from[OPS] = ops;
  const rest = /** @type {Place} */ (from[REST]);
  // With room for the last function while its length is not known.
  const wasm = { bytes: new Uint8Array(size + 5), at: before };
  const mover = new Mover(from, each(() => wasm));
  wasm.bytes.set(piece(rest, before));
  for (let left = functions; left > 0; left--) {
    // The length of a function stands before it, and is known after it.
    const start = wasm.at;
    wasm.at += 5;
    mover.walk();
    const length = leb(wasm.at - start - 5);
    wasm.bytes.copyWithin(start + length.length, start + 5, wasm.at);
    wasm.bytes.set(length, start);
    wasm.at += length.length - 5;
  }
  wasm.bytes.set(piece(rest, size - wasm.at), wasm.at);
  return wasm.bytes.subarray(0, size);
}

/**
 * Packs a wasm.
 *
 * @param {Uint8Array} wasm
 */
export function pack(wasm) {
  const input = { bytes: wasm, at: 8 };
  const to = each(() => ({ bytes: new Uint8Array(wasm.length), at: 0 }));
  const mover = new Mover(each(() => input), to);
  let [before, functions, after] = [wasm.length, 0, wasm.length];
  while (input.at < wasm.length) {
    const section = wasm[input.at++];
    const length = read(input);
    if (section !== 10) {
      input.at += length;
      continue;
    }
    after = input.at + length;
    functions = read(input);
    before = input.at;
    for (let left = functions; left > 0; left--) {
      read(input);
      mover.walk();
    }
  }
  const lists = to.map(({ bytes, at }) => bytes.subarray(0, at));
  lists[REST] = Uint8Array.from([...wasm.subarray(0, before), ...wasm.subarray(after)]);
  const opcodes = lists[OPS]?.length ?? 0;
  const { pairs, bytes } = paired([...(lists[OPS] ?? [])]);
  lists[OPS] = Uint8Array.from(bytes);
  const sizes = lists.map((list) => list.length);
  const header = [wasm.length, before, functions, opcodes, pairs.length / 3].flatMap(leb);
  const payload = [NAME.length, ...ascii(NAME), ...header, ...pairs, ...sizes.flatMap(leb)];
  const length = sizes.reduce((sum, size) => sum + size, payload.length);
  return Uint8Array.from([ascii(HEAD), leb(length), payload, ...lists].flatMap((part) => [...part]));
}

/**
 * With bytes that do not occur for the pairs that occur most, over and over; as many as gzip still gains by.
 *
 * @param {number[]} bytes
 */
function paired(bytes) {
  const free = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !bytes.includes(byte));
  /** @type {number[]} */
  const pairs = [];
  for (const symbol of free.slice(0, 41)) {
    const counts = new Uint32Array(65536);
    bytes.forEach((byte, at) => at && counts[(bytes[at - 1] ?? 0) * 256 + byte]++);
    const best = counts.indexOf(Math.max(...counts));
    const [first, second] = [best >> 8, best & 255];
    pairs.push(symbol, first, second);
    const shorter = [];
    for (let at = 0; at < bytes.length; at++) {
      const found = bytes[at] === first && bytes[at + 1] === second;
      shorter.push(found ? symbol : /** @type {number} */ (bytes[at]));
      if (found) at++;
    }
    bytes = shorter;
  }
  return { pairs, bytes };
}
