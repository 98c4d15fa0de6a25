// An image as a file.

import { deflateSync } from "node:zlib";

/** Returns a PNG of a red disc on a blue gradient. */
export function discPng(width, height) {
  const rows = Buffer.alloc((width * 3 + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const inside = (x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2;
      const colour = inside ? [220, 40, 30] : [10, 30, Math.trunc((255 * x) / width)];
      rows.set(colour, y * (width * 3 + 1) + 1 + x * 3);
    }
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  const chunks = [["IHDR", header], ["IDAT", deflateSync(rows)], ["IEND", Buffer.alloc(0)]];
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return Buffer.concat([signature, ...chunks.map(([type, data]) => pngChunk(type, data))]);
}

function pngChunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]);
  let crc = 0xffffffff;
  for (const byte of body) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  const number = (value) => Buffer.from([value >>> 24, value >>> 16, value >>> 8, value].map((b) => b & 255));
  return Buffer.concat([number(data.length), body, number(~crc)]);
}
