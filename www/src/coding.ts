// Text encoding and decoding. The build replaces `TextDecoder` and `TextEncoder` in the cores' JavaScript by these. Test
// environments such as Jest's jsdom may run in Node without its globals.

type Coding = Pick<typeof globalThis, "TextDecoder" | "TextEncoder">;

/** Node's modules, if available. They are not imported, because bundlers for browsers would try to resolve them. */
interface Node {
  process?: { getBuiltinModule?(name: "node:util"): Coding | undefined };
}

const isThere = (name: keyof Coding) => typeof (globalThis as Partial<Coding>)[name] === "function";

function coding(): Coding {
  if (isThere("TextDecoder") && isThere("TextEncoder")) return globalThis;
  return (globalThis as Node).process?.getBuiltinModule?.("node:util") ?? globalThis;
}

const { TextDecoder: Decoder, TextEncoder: Encoder } = coding();

export { Decoder as TextDecoder, Encoder as TextEncoder };
