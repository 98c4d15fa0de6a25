// The declarations that users of the npm package see, as one text.
//
// Problem: www/dist has about 40 files of declarations. Most of what they declare is internal, and the remaining declarations
// move between files without an effect on users.
//
// Idea: start at the exports of the package's entries, and follow the names in each declaration to other declarations. Only
// these are part of the text. They are sorted by name, as are the members of classes and interfaces. They have no comments.

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { dist, root } from "./env.mjs";

/** Returns the text: the names that each entry exports, and then all declarations. */
export async function listDeclarations() {
  const { parseSync } = await import("vite"); // Imported here, because setup installs it.
  const modules = new Map();
  /** Returns a module of www/dist by its file name without `.d.ts`. */
  const moduleOf = (name) => {
    if (!modules.has(name)) modules.set(name, readModule(name, parseSync));
    return modules.get(name);
  };
  const found = new Map(); // From a declaration to the name that it declares.
  const exported = new Set();
  const follow = (module, name, isExport) => {
    const [origin, local] = originOf(module, name, moduleOf);
    for (const item of origin?.items.get(local) ?? []) {
      if (isExport) exported.add(item);
      if (found.has(item)) continue;
      found.set(item, local);
      for (const used of item.names) follow(origin, used, false);
    }
    for (const item of origin?.globals ?? []) found.set(item, "");
  };
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const entries = Object.entries(exports).filter(([, { types }]) => types);
  const lists = entries.map(([path, { types }]) => {
    const module = moduleOf(basename(types, ".d.ts"));
    const names = exportsOf(module, moduleOf).sort();
    for (const name of names) follow(module, name, true);
    return [path.replace(".", "warpweft"), names];
  });
  const order = ([a, nameA], [b, nameB]) => compare(nameA, nameB) || compare(a.text, b.text);
  const texts = [...found].sort(order).map(([item]) => (exported.has(item) ? `export ${item.text}` : item.text));
  return [...listExports(lists), ...texts].join("\n\n") + "\n";
}

/** Returns a comment for each entry. Names that the first entry exports are not repeated. */
function listExports([[first, names], ...others]) {
  const comment = (title, names) => [title, ...names.map((name) => `  ${name}`)].map((line) => `// ${line}`).join("\n");
  const rest = others.map(([entry, all]) => {
    const missing = names.filter((name) => !all.includes(name));
    if (missing.length) throw new Error(`${entry} must export all that ${first} exports, got no ${missing.join(", ")}`);
    return comment(`${entry} exports what ${first} exports, and:`, all.filter((name) => !names.includes(name)));
  });
  return [comment(`${first} exports:`, names), ...rest];
}

/**
 * Reads a module. `items` are its declarations by name. `links` are the names that it imports or exports from other modules.
 * `all` are the modules whose exports it exports, too.
 */
function readModule(name, parseSync) {
  const file = join(dist, `${name}.d.ts`);
  const source = readFileSync(file, "utf8");
  const { program, comments, errors } = parseSync(file, source, { lang: "dts" });
  if (errors.length) throw new Error(`${file}: ${errors[0].message}`);
  const module = { items: new Map(), globals: [], exported: [], links: new Map(), all: [] };
  const text = (node) => textOf(node, source, comments);
  const add = (declaration) => {
    for (const { id } of declaration.declarations ?? [declaration]) {
      const item = { text: text(declaration), names: namesIn(declaration) };
      module.items.set(id.name, [...(module.items.get(id.name) ?? []), item]);
    }
    return (declaration.declarations ?? [declaration]).map(({ id }) => id.name);
  };
  for (const node of program.body) {
    const from = node.source && basename(node.source.value, ".js");
    if (node.type === "ExportAllDeclaration") module.all.push(from);
    else if (node.type === "ImportDeclaration") {
      for (const { local, imported } of node.specifiers) module.links.set(local.name, [from, imported.name]);
    } else if (node.type === "ExportNamedDeclaration") {
      if (node.declaration) module.exported.push(...add(node.declaration));
      for (const { local, exported } of node.specifiers) {
        module.exported.push(exported.name);
        if (from) module.links.set(exported.name, [from, local.name]);
        else if (local.name !== exported.name) throw new Error(`${file}: ${local.name} must be exported under its name`);
      }
    } else if (node.type.startsWith("TSModule") || node.type === "TSGlobalDeclaration") {
      module.globals.push({ text: text(node), names: [] });
    } else add(node);
  }
  return module;
}

/** Returns the names that a module exports. */
function exportsOf(module, moduleOf) {
  return [...new Set([...module.exported, ...module.all.flatMap((name) => exportsOf(moduleOf(name), moduleOf))])];
}

/** Returns the module that declares a name which is used in, or exported by, another module, and the name there. */
function originOf(module, name, moduleOf) {
  if (module.items.has(name)) return [module, name];
  if (module.links.has(name)) {
    const [from, original] = module.links.get(name);
    return originOf(moduleOf(from), original, moduleOf);
  }
  const passed = module.all.map(moduleOf).find((other) => exportsOf(other, moduleOf).includes(name));
  return passed ? originOf(passed, name, moduleOf) : [];
}

/** Returns all identifiers in a node. Some are names of members, which at worst find a declaration too many. */
function namesIn(node) {
  const names = new Set();
  const visit = (value) => {
    if (value?.type === "Identifier") names.add(value.name);
    if (value?.type === "TSImportType") throw new Error("declarations must import by name, got import()");
    if (value && typeof value === "object") Object.values(value).forEach(visit);
  };
  visit(node);
  return names;
}

/** Returns a declaration without comments and empty lines. The members of classes and interfaces are sorted by name. */
function textOf(node, source, comments) {
  const plain = (start, end) => {
    const inside = comments.filter((comment) => comment.start >= start && comment.end <= end);
    const starts = [start, ...inside.map((comment) => comment.end)];
    const parts = starts.map((from, at) => source.slice(from, inside[at]?.start ?? end));
    return parts.join("").split("\n").map((line) => line.trimEnd()).filter(Boolean).join("\n");
  };
  const { body } = node;
  if (body?.type !== "ClassBody" && body?.type !== "TSInterfaceBody") return plain(node.start, node.end);
  const key = (member) => source.slice(member.key?.start ?? member.start, member.key?.end ?? member.end);
  // The order of overloads has a meaning, so it is kept.
  const sorted = [...body.body].sort((a, b) => compare(key(a), key(b)));
  const members = sorted.map((member) => `    ${plain(member.start, member.end)}`);
  return [`${plain(node.start, body.start)} {`, ...members, "}"].join("\n");
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
