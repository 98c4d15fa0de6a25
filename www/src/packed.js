// A wasm whose instructions are sorted by what they are: all opcodes in one list, all numbers of locals in another, and
// so on. What is alike then stands together, and gzip makes an eighth less of it. The same walk takes a function apart
// and puts it together. In plain JavaScript, because the build uses it, too.

/** Before the payload of a packed wasm, which is a wasm with nothing but that payload. */
const HEAD = "\0asm\x01\0\0\0\0";
const NAME = "packed";

// The lists. Their order is that in the file: neighbours share what gzip learns of them.
// (Those of locals are read, set, and set and read.)
const [OPS, GET, , , LOCALS, INTS, LOADS, STORES, ALIGN, CALLS, BLOCKS, BRANCHES, FLOATS, OTHER, REST] = Array(15).keys();

/** The usual alignments of the instructions from `i32.load` to `i64.store32`. */
const ALIGNMENTS = "23230011001122232301012";

/**
 * Goes through one function. `move(list, count, mask)` takes the next `count` bytes along, changed by the mask, or a
 * number of as many bytes as it has, and gives the number or the last byte.
 *
 * @param {(list: number, count?: number, mask?: number) => number} move
 */
function walk(move) {
  for (let kinds = move(LOCALS); kinds > 0; kinds--) {
    move(LOCALS);
    move(LOCALS, 1);
  }
  for (let depth = 0; depth >= 0; ) {
    const op = move(OPS, 1);
    if (op === 0x0b) depth--;
    else if (op >= 0x02 && op <= 0x04) {
      depth++;
      move(BLOCKS);
    } else if (op === 0x0c || op === 0x0d) move(BRANCHES);
    else if (op === 0x0e) for (let targets = move(BRANCHES); targets >= 0; targets--) move(BRANCHES);
    else if (op === 0x10) move(CALLS);
    else if (op === 0x11) {
      move(OTHER);
      move(OTHER);
    } else if (op >= 0x20 && op <= 0x22) move(op - 0x20 + GET);
    else if ((op >= 0x23 && op <= 0x26) || op === 0x3f || op === 0x40 || op === 0xd0 || op === 0xd2) move(OTHER);
    else if (op >= 0x28 && op <= 0x3e) {
      move(ALIGN, 1, Number(ALIGNMENTS[op - 0x28]));
      move(op < 0x36 ? LOADS : STORES);
    } else if (op === 0x41 || op === 0x42) move(INTS);
    else if (op === 0x43 || op === 0x44) move(FLOATS, op === 0x43 ? 4 : 8);
    else if (op === 0xfc) {
      const bulk = move(OTHER);
      if (bulk >= 8) move(OTHER);
      if (bulk === 8 || bulk === 10 || bulk === 12 || bulk === 14) move(OTHER);
    } else if (op === 0xfd) {
      const vector = move(OPS);
      const lane = vector >= 84 && vector <= 91;
      if (vector <= 11 || vector === 92 || vector === 93 || lane) {
        move(ALIGN, 1);
        move(LOADS);
      }
      if (vector === 12 || vector === 13) move(FLOATS, 16);
      else if ((vector >= 21 && vector <= 34) || lane) move(OTHER, 1);
    } else if (op === 0x1c || op > 0xc4) throw new Error(`packed: no instruction ${op}`);
  }
}

/**
 * Reads numbers and bytes from `bytes`.
 *
 * @param {Uint8Array} bytes
 */
function reader(bytes, at = 0) {
  return {
    get at() {
      return at;
    },
    byte: () => /** @type {number} */ (bytes[at++]),
    number() {
      for (let value = 0, scale = 1; ; scale *= 128) {
        const byte = this.byte();
        value += (byte & 127) * scale;
        if (byte < 128) return value;
      }
    },
    /** @param {number} length */
    piece: (length) => bytes.subarray(at, (at += length)),
  };
}

/** @param {number} number @returns {number[]} */
const leb = (number) => (number < 128 ? [number] : [(number % 128) + 128, ...leb(Math.floor(number / 128))]);

/** @param {string} text */
const ascii = (text) => new TextEncoder().encode(text);

/**
 * The wasm that was packed; what was not stays as it is.
 *
 * @param {Uint8Array<ArrayBuffer>} packed
 */
export function unpack(packed) {
  const head = reader(packed, HEAD.length);
  head.number();
  const name = head.piece(head.number());
  if (packed[8] !== 0 || String.fromCharCode(...name) !== NAME) return packed;
  const size = head.number();
  // With room for the last function while its length is not known.
  const wasm = new Uint8Array(size + 5);
  const [before, functions] = [head.number(), head.number()];
  /** @type {number[][]} */
  const spelled = Array.from({ length: 256 }, (_, byte) => [byte]);
  for (let pairs = head.number(); pairs > 0; pairs--) {
    const [pair, first, second] = [head.byte(), head.byte(), head.byte()];
    spelled[pair] = [first, second].flatMap((byte) => spelled[byte] ?? []);
  }
  const lengths = Array.from({ length: REST + 1 }, () => head.number());
  const pieces = lengths.map((length) => head.piece(length));
  const ops = [...pieces[OPS] ?? []].flatMap((byte) => spelled[byte] ?? []);
  const lists = pieces.map((piece, list) => reader(list === OPS ? Uint8Array.from(ops) : piece));
  const rest = /** @type {ReturnType<typeof reader>} */ (lists[REST]);
  wasm.set(rest.piece(before));
  let end = before;
  for (let left = functions; left > 0; left--) {
    // The length of a function stands before it, and is known after it.
    const start = end;
    end += 5;
    walk((list, count, mask = 0) => {
      const from = /** @type {ReturnType<typeof reader>} */ (lists[list]);
      for (let value = 0, scale = 1; ; scale *= 128) {
        const byte = from.byte() ^ mask;
        wasm[end++] = byte;
        value += (byte & 127) * scale;
        if (count ? !--count : byte < 128) return count === undefined ? value : byte;
      }
    });
    const length = leb(end - start - 5);
    wasm.copyWithin(start + length.length, start + 5, end);
    wasm.set(length, start);
    end += length.length - 5;
  }
  wasm.set(rest.piece(size - end), end);
  return wasm.subarray(0, size);
}

/**
 * Packs a wasm.
 *
 * @param {Uint8Array} wasm
 */
export function pack(wasm) {
  const input = reader(wasm, 8);
  /** @type {number[][]} */
  const lists = Array.from({ length: REST + 1 }, () => []);
  let [before, functions, after] = [wasm.length, 0, wasm.length];
  while (input.at < wasm.length) {
    const section = input.byte();
    const length = input.number();
    if (section !== 10) {
      input.piece(length);
      continue;
    }
    after = input.at + length;
    functions = input.number();
    before = input.at;
    for (let left = functions; left > 0; left--) {
      input.number();
      walk((list, count, mask = 0) => {
        const to = /** @type {number[]} */ (lists[list]);
        for (let value = 0, scale = 1; ; scale *= 128) {
          const byte = input.byte();
          to.push(byte ^ mask);
          value += (byte & 127) * scale;
          if (count ? !--count : byte < 128) return count === undefined ? value : byte;
        }
      });
    }
  }
  lists[REST] = [...wasm.subarray(0, before), ...wasm.subarray(after)];
  const { pairs, bytes } = paired(lists[OPS] ?? []);
  lists[OPS] = bytes;
  const [numbers, sizes] = [[wasm.length, before, functions], lists.map((list) => list.length)];
  const header = [...numbers.flatMap(leb), pairs.length / 3, ...pairs, ...sizes.flatMap(leb)];
  const payload = [NAME.length, ...ascii(NAME), ...header, ...lists.flat()];
  return Uint8Array.from([...ascii(HEAD), ...leb(payload.length), ...payload]);
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
  for (const symbol of free.slice(0, 35)) {
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
