// Writes ONNX models: just as much of protocol buffers and of onnx.proto as small float graphs take.

const text = new TextEncoder();
const FLOAT = 1;

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    if (rest < 128n) return Uint8Array.of(...bytes, Number(rest));
    bytes.push(Number(rest & 127n) | 128);
  }
}

function join(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Fields of a message; numbers are varints, text, bytes and messages have their length in front. */
const field = (number, value) =>
  typeof value === "number" ? join([varint(number * 8), varint(value)]) : bytes(number, value);
const bytes = (number, value) => {
  const data = typeof value === "string" ? text.encode(value) : value;
  return join([varint(number * 8 + 2), varint(data.length), data]);
};
const float = (number, value) => join([varint(number * 8 + 5), new Uint8Array(Float32Array.of(value).buffer)]);
const all = (number, values) => join(values.map((value) => field(number, value)));

/** AttributeProto: integers, lists of integers, text; a number that is to be a float is written `{ float: 1 }`. */
function attribute([name, value]) {
  const head = field(1, name);
  if (Array.isArray(value)) return join([head, all(8, value), field(20, 7)]);
  if (typeof value === "string") return join([head, field(4, value), field(20, 3)]);
  if (typeof value === "object") return join([head, float(2, value.float), field(20, 1)]);
  return join([head, field(3, value), field(20, 2)]);
}

/** NodeProto. */
const node = ({ op, inputs, outputs, attributes = {}, domain = "" }) =>
  join([
    ...[all(1, inputs), all(2, outputs), field(4, op)],
    ...Object.entries(attributes).map((entry) => field(5, attribute(entry))),
    field(7, domain),
  ]);

/** ValueInfoProto of a float tensor; an extent that is a name is any. */
function value([name, shape]) {
  const dims = join(shape.map((extent) => field(1, field(typeof extent === "string" ? 2 : 1, extent))));
  return join([field(1, name), field(2, field(1, join([field(1, FLOAT), field(2, dims)])))]);
}

/** TensorProto of floats, or of 64-bit integers. */
function tensor([name, { shape, data }]) {
  const type = data instanceof BigInt64Array ? 7 : FLOAT;
  const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return join([all(1, shape), field(2, type), field(8, name), field(9, raw)]);
}

/**
 * A ModelProto: `inputs` and `outputs` are shapes by name, `weights` are `{ shape, data }` by name.
 * @returns {Uint8Array}
 */
export function model({ nodes, inputs, outputs, weights }) {
  const graph = join([
    ...[all(1, nodes.map(node)), field(2, "case")],
    all(5, Object.entries(weights).map(tensor)),
    all(11, Object.entries(inputs).map(value)),
    all(12, Object.entries(outputs).map(value)),
  ]);
  const operators = (domain, version) => field(8, join([field(1, domain), field(2, version)]));
  return join([field(1, 8), field(7, graph), operators("", 20), operators("com.microsoft", 1)]);
}
