// A wasm in parts: what not every page needs is put into files of its own. Works on the text that `wasm-opt -S` writes.
//
// A part has no memory or tables of its own: it imports those of the core, and the core's functions that it calls. What the
// core calls of a part it calls through a place in its table, which the part fills when it is loaded; and long texts that
// only a part uses it brings to their place in the memory.

const NAME = String.raw`\$(?:"(?:[^"\\]|\\.)*"|[^\s()]+)`;
const names = (text) => [...text.matchAll(new RegExp(NAME, "g"))].map(([name]) => name);
const used = (text, instructions) =>
  new Set([...text.matchAll(new RegExp(String.raw`\((?:${instructions}) (${NAME})`, "g"))].map(([, name]) => name));
const calls = (text) => used(text, "call|return_call|ref\\.func");

/**
 * Splits a module. `parts` has for each part a pattern of the functions that begin it, `begin`: they and what is reached
 * only through them move there. `doors` is a pattern of the functions that may call them from outside; any other that
 * does is an error, because a page without the part would run into it. `data` are texts that only the part uses. Gives
 * the texts of the parts, and of the core by `core`.
 */
export function split(text, parts) {
  const module = parse(text);
  const home = homes(module, parts);
  const away = (name) => module.functions.has(name) && home.get(name) !== "core";

  const called = new Set();
  for (const [name, body] of module.functions) {
    for (const other of calls(body)) {
      const part = home.get(other);
      if (!away(other) || part === home.get(name)) continue;
      if (!parts[part].doors.test(name)) throw new Error(`split: ${name} needs ${other}, which is in "${part}"`);
      called.add(other);
    }
  }
  // The places in the table that the parts fill: those that were theirs before, and new ones for what is called.
  const places = module.listed.map((name, at) => [name, module.firstListed + at]).filter(([name]) => away(name));
  const trampolines = [...called].map((name, at) => {
    places.push([name, module.tableSize + at]);
    return trampoline(module, name, module.tableSize + at);
  });

  const kept = [...module.functions].filter(([name]) => home.get(name) === "core").map(([, body]) => body);
  const moved = Object.fromEntries(
    Object.entries(parts).map(([part, { data = [] }]) => [part, data.map((bytes) => takeData(module, bytes, kept))]),
  );

  const exported = new Map();
  const imported = (kind, name, type) => {
    const thing = `${kind} ${name}`;
    if (!exported.has(thing)) exported.set(thing, exported.size.toString(36));
    return `(import "" "${exported.get(thing)}" (${thing} ${type}))`;
  };
  const texts = {};
  for (const part of Object.keys(parts)) {
    const own = [...module.functions].filter(([name]) => home.get(name) === part);
    const bodies = own.map(([, body]) => body).join("\n ");
    const others = [...calls(bodies)].filter((name) => home.get(name) !== part);
    const forms = [
      ...module.types,
      ...others.map((name) => imported("func", name, signature(module, name))),
      ...[...used(bodies, "global\\.[gs]et")].map((name) => imported("global", name, module.globals.get(name))),
      imported("memory", module.memory, "1"),
      imported("table", module.table, "1 funcref"),
      ...[...used(bodies, "table\\.\\w+")].map((name) => imported("table", name, "1 externref")),
      ...elements(module.table, places.filter(([name]) => home.get(name) === part)),
      ...moved[part].map(dataForm),
    ];
    texts[part] = `(module\n ${forms.join("\n ")}\n ${bodies}\n)\n`;
  }
  const exports = [...exported].map(([thing, short]) => `(export "${short}" (${thing}))`);
  const rest = module.rest(called.size, (name) => (away(name) ? module.listed.find((other) => !away(other)) : name));
  texts.core = `(module\n ${[...rest, ...module.data.map(dataForm), ...exports, ...kept, ...trampolines].join("\n ")}\n)\n`;
  return texts;
}

/** For each function the part that alone needs it, or "core". */
function homes(module, parts) {
  const begins = (name) => Object.keys(parts).find((part) => parts[part].begin.test(name));
  const reach = (from, stop) => {
    const reached = new Set();
    const left = [...from];
    while (left.length) {
      const name = left.pop();
      if (reached.has(name) || !module.functions.has(name) || stop(name)) continue;
      reached.add(name);
      left.push(...calls(module.functions.get(name)));
    }
    return reached;
  };
  const core = reach(module.roots.filter((name) => !begins(name)), begins);
  const home = new Map([...core].map((name) => [name, "core"]));
  const shared = new Set();
  for (const part of Object.keys(parts)) {
    const own = [...module.functions.keys()].filter((name) => begins(name) === part);
    for (const name of reach(own, (other) => core.has(other) || ![part, undefined].includes(begins(other)))) {
      if (home.has(name)) shared.add(name);
      home.set(name, part);
    }
  }
  // What several parts need is the core's, and so is what that needs.
  for (const name of reach(shared, begins)) home.set(name, "core");
  return home;
}

function parse(text) {
  const forms = text.trim().slice(0, -1).split(/\n (?=\()/).slice(1);
  const starting = (word) => forms.filter((form) => form.startsWith(`(${word} `));
  const named = (word) => new Map(starting(word).map((form) => [names(form)[0], form]));
  const functions = named("func");
  const [table] = starting("table").filter((form) => form.includes("funcref"));
  const [list, more] = starting("elem");
  if (more || !list) throw new Error("split: not one list of functions in tables");
  const [, size] = table.match(/ (\d+) /);
  return {
    functions,
    imports: named("import"),
    types: starting("type"),
    data: starting("data").map(parseData),
    memory: names(starting("memory")[0])[0],
    table: names(table)[0],
    tableSize: Number(size),
    firstListed: Number(list.match(/i32\.const (\d+)/)[1]),
    listed: names(list.slice(list.indexOf(" func "))),
    globals: new Map(starting("global").map((form) => [names(form)[0], form.match(/\(mut \w+\)|[if]\d\d/)[0]])),
    roots: [...starting("export"), list, ...starting("start")].flatMap(names).filter((name) => functions.has(name)),
    /** What is neither functions nor data, with `more` places in the table, and what stands in it by `listed`. */
    rest(more, listed) {
      const wide = table.replace(/ \d+ (\d+ )?funcref/, ` ${Number(size) + more} funcref`);
      const changed = new Map([
        [table, wide],
        [list, list.replace(new RegExp(NAME, "g"), listed)],
      ]);
      return forms.filter((form) => !/^\((func|data) /.test(form)).map((form) => changed.get(form) ?? form);
    },
  };
}

/** Takes bytes out of the module's data, and gives them with their address. No function of the core may use them. */
function takeData(module, bytes, core) {
  const found = module.data.findIndex((piece) => piece.bytes.includes(bytes));
  if (found < 0) throw new Error(`split: no data ${JSON.stringify(bytes.slice(0, 40))}`);
  const piece = module.data[found];
  const [at, begin] = [piece.bytes.indexOf(bytes), piece.at + piece.bytes.indexOf(bytes)];
  const end = begin + bytes.length;
  for (const [use, , address] of core.join("\n").matchAll(/(i32\.const |offset=)(\d+)/g)) {
    if (address >= begin && address < end) throw new Error(`split: the core's ${use} is in the data of a part`);
  }
  const rest = { at: end, bytes: piece.bytes.slice(at + bytes.length) };
  module.data.splice(found, 1, { at: piece.at, bytes: piece.bytes.slice(0, at) }, rest);
  return { at: begin, bytes };
}

/** Functions with their places in a table, in their order, as forms: places that follow each other in one. */
function elements(table, places) {
  const runs = [];
  for (const [name, place] of places) {
    const last = runs.at(-1);
    if (last?.place + last?.names.length === place) last.names.push(name);
    else runs.push({ place, names: [name] });
  }
  return runs.map(({ place, names }) => `(elem (table ${table}) (i32.const ${place}) func ${names.join(" ")})`);
}

/** Data as text: each byte that is not plain ASCII by its number. */
function dataForm({ at, bytes }) {
  const plain = bytes.replace(/[^ -~]|["\\]/g, (byte) => `\\${byte.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return `(data (i32.const ${at}) "${plain}")`;
}

/** A piece of the module's data: its address, and a text with a character for each byte. */
function parseData(form) {
  const [, at, text] = form.match(/^\(data \S+ \(i32\.const (\d+)\) "([^]*)"\)$/);
  const escapes = { t: "\t", n: "\n", r: "\r" };
  const bytes = text.replace(/\\([0-9a-f]{2}|.)/g, (_, what) =>
    what.length === 2 ? String.fromCharCode(parseInt(what, 16)) : (escapes[what] ?? what),
  );
  return { at: Number(at), bytes };
}

/** A function's parameters and results, as its text has them. */
function signature(module, name) {
  const form = module.functions.get(name) ?? module.imports.get(name);
  const begin = form.indexOf("(func ") + "(func ".length + name.length;
  return form.slice(begin).match(/^(?: \((?:type|param|result) [^)]*\))*/)[0];
}

/** A function in the place of one that went to a part: calls what the part puts into the table. */
function trampoline(module, name, place) {
  const types = signature(module, name);
  const values = [...types.matchAll(/\(param (\$\S+) /g)].map(([, parameter]) => `(local.get ${parameter})`);
  const plain = types.replace(/\(param \$\S+ /g, "(param ");
  return `(func ${name}${types} (call_indirect ${module.table}${plain} ${values.join(" ")} (i32.const ${place})))`;
}
