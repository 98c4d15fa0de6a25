// The order of a wasm's functions: like ones next to each other, so that gzip, which sees 32 KB at a time, finds what
// they have in common.

import { readFileSync, writeFileSync } from "node:fs";
import { leb } from "../src/packed.js";

/** As many bytes in common are worth something: shorter ones are everywhere. */
const COMMON = 5;
/** How far back in the code likeness counts. */
const WINDOW = 300;

/** Names the functions of a wasm by the places they are to have: `wasm-opt --reorder-functions-by-name` puts them there. */
export function nameByOrder(path) {
  const wasm = readFileSync(path);
  const { imports, bodies } = functions(wasm);
  const place = [];
  order(bodies).forEach((body, at) => (place[body] = at));
  const names = place.flatMap((at, body) => [...leb(imports + body), ...text(String(at).padStart(6, "0"))]);
  const list = [...leb(place.length), ...names];
  const section = [...text("name"), 1, ...leb(list.length), ...list];
  writeFileSync(path, Buffer.concat([wasm, Buffer.from([0, ...leb(section.length), ...section])]));
}

/** The bodies in an order in which each is as much as may be like those just before it. */
function order(bodies) {
  const pieces = bodies.map(piecesOf);
  const users = new Map();
  pieces.forEach((own, body) => own.forEach((piece) => users.set(piece, [...(users.get(piece) ?? []), body])));
  // How many of each body's pieces are in the window, and how often a piece is.
  const shared = bodies.map(() => 0);
  const times = new Map();
  const count = (piece, change) => {
    const before = times.get(piece) ?? 0;
    times.set(piece, before + change);
    if (before === 0 || before + change === 0) for (const user of users.get(piece)) shared[user] += change;
  };
  const left = new Set(bodies.keys());
  const ordered = [];
  let [first, bytes] = [0, 0];
  while (left.size) {
    let best;
    for (const body of left) {
      const likeness = shared[body] / (pieces[body].size + 1);
      if (best === undefined || likeness > best.likeness) best = { body, likeness };
    }
    left.delete(best.body);
    ordered.push(best.body);
    for (const piece of pieces[best.body]) count(piece, 1);
    bytes += bodies[best.body].length;
    for (; bytes > WINDOW && first < ordered.length - 1; first++) {
      bytes -= bodies[ordered[first]].length;
      for (const piece of pieces[ordered[first]]) count(piece, -1);
    }
  }
  return ordered;
}

/** All runs of `COMMON` bytes of a body, as numbers. */
function piecesOf(body) {
  const pieces = new Set();
  for (let at = 0; at + COMMON <= body.length; at++) pieces.add(body.readUIntBE(at, COMMON));
  return pieces;
}

/** How many functions a wasm imports, and the bodies of its own. */
function functions(wasm) {
  let at = 8;
  const number = () => {
    let [value, shift, byte] = [0, 1, 0];
    do {
      byte = wasm[at++];
      value += (byte & 127) * shift;
      shift *= 128;
    } while (byte & 128);
    return value;
  };
  const skip = () => {
    const length = number();
    at += length;
  };
  const found = { imports: 0, bodies: [] };
  while (at < wasm.length) {
    const section = wasm[at++];
    const length = number();
    const end = at + length;
    if (section === 2) {
      for (let left = number(); left > 0; left--) {
        skip();
        skip();
        const kind = wasm[at++];
        if (kind === 0) {
          number();
          found.imports++;
        } else if (kind === 3) {
          at += 2;
        } else {
          // A table has the type of its elements first, and like a memory one number or two.
          if (kind === 1) at++;
          if (wasm[at++] & 1) number();
          number();
        }
      }
    } else if (section === 10) {
      for (let left = number(); left > 0; left--) {
        const bytes = number();
        found.bodies.push(wasm.subarray(at, (at += bytes)));
      }
    }
    at = end;
  }
  return found;
}

/** A short text as wasm writes it. */
function text(ascii) {
  return [ascii.length, ...Buffer.from(ascii)];
}
