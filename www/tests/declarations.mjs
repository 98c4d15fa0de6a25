// Tests that all declared names exist when the package runs, and that the links in their comments lead to declarations.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { modelFolder } from "../tools/models.mjs";
import * as warpweft from "../dist/models.js";
import { finish } from "./support/browser.js";

const read = (name) => readFileSync(join(root, "www", "dist", name.replace(/^\.\//, "").replace(/\.js$/, ".d.ts")), "utf8");

/** Adds the declarations of a file: classes, functions, constants or types, with their members. */
function declared(text, into) {
  const words = "class|interface|namespace|type|function|const";
  const head = `^export (?:declare )?(?:abstract )?(${words}) (\\w+)(?:<[^{]*?>)?(?: extends (\\w+))?`;
  const kinds = new RegExp(head, "gm");
  for (const { 1: kind, 2: name, 3: base, index } of text.matchAll(kinds)) {
    // A block ends where its bracket begins a line.
    const block = text.slice(index, text.indexOf("\n}", index) + 1);
    // A line that ends with a comma is an argument of the previous line.
    const member = /^ {2,4}(static |export function |function )?(?:readonly |get |set |abstract )*(\w+)\??[(<:](?!.*,$)/gm;
    const lines = [...block.matchAll(member)].filter(([, , name]) => !(kind === "namespace" && name === "create"));
    const names = (own) => lines.filter(([, of]) => Boolean(of) === own).map(([, , name]) => name);
    const own = { kind, base, statics: names(true), instance: names(false).filter((name) => name !== "constructor") };
    const other = into.get(name);
    // An interface may extend a class.
    into.set(name, other === undefined ? own : {
      kind: [kind, other.kind].includes("class") ? "class" : kind,
      base: base ?? other.base,
      statics: [...own.statics, ...other.statics],
      instance: [...own.instance, ...other.instance],
    });
  }
}

/** Returns the names that users can import from a file. */
function exportsOf(file, into = new Map()) {
  const text = read(file);
  declared(text, into);
  for (const [, from] of text.matchAll(/^export \* from "(.*)";/gm)) exportsOf(from, into);
  for (const [, type, names, from] of text.matchAll(/^export (type )?\{ (.*) \} from "(.*)";/gm)) {
    const all = new Map();
    declared(read(from), all);
    for (const name of names.split(", ").filter((name) => all.has(name))) {
      into.set(name, type ? { ...all.get(name), kind: "type" } : all.get(name));
    }
  }
  return into;
}

const exported = exportsOf("models.d.ts");

/** Returns the members of objects of a class, including inherited ones. */
const instance = ({ instance: own, base }) => (base && exported.has(base) ? [...own, ...instance(exported.get(base))] : own);

/** Returns an object of each class. */
async function samples() {
  const { Device, Embedder, Generator, LanguageModel, Layer, Module, Optimizer, Residual } = warpweft;
  const { Schedule, Sequential, Trainer, Variable } = warpweft;
  const device = await Device.new({ prefer: "cpu" });
  const g = new Generator(device, 1);
  const layer = Layer.linear(g, 2, 2);
  const optimizer = Optimizer.sgd(layer, { lr: 0.1 });
  const x = device.ones([4, 2]);
  const file = join(modelFolder, "SmolLM2-135M-Instruct.Q4_1.gguf");
  const model = await LanguageModel.load(file, { device, context: 16 });
  const batch = device.batch();
  batch.add(x.mul(2));
  const { profile } = await device.profile(() => x.add(1).run());
  const shader = `@group(0) @binding(1) var<storage, read> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x]; }`;
  return {
    Batch: batch,
    Device: device,
    ElementFunction: await device.elementFunction("fn same(x: f32) -> f32 { return x; }", { fallback: (x) => x.mul(1) }),
    Embedder: await Embedder.load(join(modelFolder, "all-MiniLM-L6-v2"), { device }),
    Generation: model.generate("The"),
    Generator: g,
    LanguageModel: model,
    Layer: layer,
    LoraAdapter: model.createAdapter(),
    Module: new (class extends Module {})(),
    Optimizer: optimizer,
    Plan: batch.plan(),
    Profile: profile,
    Program: device.compile([{ shape: [2] }], (x) => x.mul(2)),
    Residual: new Residual(layer),
    Schedule: Schedule.constant(0.1),
    Sequential: new Sequential(layer),
    Shader: await device.shader(shader, { fallback: ({ x }) => ({ y: x.mul(1) }) }),
    Tensor: x,
    Trainer: new Trainer(layer, optimizer, [x, x], (x, y) => layer.forward(x).mseLoss(y), { batchSize: 2 }),
    Variable: new Variable(device.ones([2])),
    WarpweftError: new warpweft.WarpweftError("InvalidArgument", "a message"),
    WeightAverage: optimizer.average(0.9),
  };
}

const results = [];
const found = await samples();
for (const [name, symbol] of exported) {
  if (["interface", "type"].includes(symbol.kind)) continue;
  const missing = [];
  if (!(name in warpweft)) missing.push(name);
  else if (symbol.kind === "class") {
    const object = found[name];
    if (object === undefined) missing.push("this test has no object of it");
    else missing.push(...instance(symbol).filter((own) => !(own in object)));
    missing.push(...symbol.statics.filter((own) => !(own in warpweft[name])).map((own) => `static ${own}`));
  }
  results.push({ name: `what is declared of ${name} is there`, error: missing.join(", ") || undefined });
}
const few = ["Tensor", "Device", "Trainer"].find((name) => !(exported.get(name)?.instance.length > 10));
results.push({ name: "members were found", error: few });

/** Whether a link leads to a name that users can import. */
function leads(target) {
  const [name, member] = target.split(".");
  const symbol = exported.get(name);
  if (symbol === undefined || member === undefined) return symbol !== undefined;
  return instance(symbol).includes(member) || symbol.statics.includes(member);
}

// Files that declare only names that users can import.
for (const name of ["classes", "nn-classes", "language", "profile", "share", "tune"]) {
  const text = read(`${name}.d.ts`);
  const links = [...text.matchAll(/\{@link ([^}\s]+)\s*\}/g)].map(([, target]) => target);
  const lost = new Set(links.filter((target) => !leads(target)));
  results.push({ name: `links of ${name}.d.ts`, error: [...lost].join(", ") || undefined });
  const rust = text.split("\n").filter((line) => /crate::|\bOk\(|-> Result|\bSelf::/.test(line));
  results.push({ name: `no Rust in ${name}.d.ts`, error: rust.join("\n") || undefined });
}
finish(results);
