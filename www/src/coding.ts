// Text and UTF-8. The build puts these where the cores' JavaScript says `TextDecoder` and `TextEncoder`: test environments,
// such as Jest's jsdom, may run on Node without its globals.

type Coding = Pick<typeof globalThis, "TextDecoder" | "TextEncoder">;

/** Node's modules, where there are any. Not imported: bundlers for pages would look for them. */
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
