// Tests that the entries of the package share one set of classes. Tensors pass between them, whichever is imported first, in a
// page, in Node and in CommonJS. `integrations.mjs` tests Vite, webpack and Jest.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { included } from "../tools/script.mjs";
import { same } from "./cases/harness.js";
import { finish, launch, serve } from "./support/browser.js";

const dist = join(root, "www", "dist");
const { address, close } = await serve({ "/dist/": dist });
const browser = await launch();
const results = [];

/** Adds a result: passed unless `body` throws. */
async function test(name, body) {
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
}

/** Runs a test on a fresh page. `body` also gets the list of the `.wasm` files that the page requests. */
const onPage = (name, body) =>
  test(name, async () => {
    const page = await browser.newPage();
    const loaded = [];
    page.on("request", (request) => request.url().endsWith(".wasm") && loaded.push(new URL(request.url()).pathname));
    try {
      await page.goto(address);
      await body(page, loaded);
    } finally {
      await page.close();
    }
  });

function says(text, ...words) {
  for (const word of words) if (!text.includes(word)) throw new Error(`no ${word} in ${text}`);
}

for (const prefer of ["software", "cpu"]) {
  for (const order of [["index", "nn"], ["nn", "index"], ["index", "inline", "nn"], ["nn", "models", "index"]]) {
    await onPage(`tensors pass between ${order.join(" and ")} on ${prefer}`, async (page, loaded) => {
      const seen = await page.evaluate(async ([order, prefer]) => {
        const found = {};
        for (const name of order) found[name] = await import(`/dist/${name}.js`);
        const { index, nn, inline = nn } = found;
        const device = await index.Device.new({ prefer });
        const x = device.tensor([[1, 2]]);
        // Each call has classes and objects of several entries.
        const layer = nn.Layer.linear(new inline.Generator(device, 1), 2, 2);
        const y = index.Tensor.concat([layer.forward(x), x, nn.Tensor.stack([x]).squeeze(0)], 0);
        const weight = new index.Variable(y);
        class Net extends nn.Module {
          weight = weight;
        }
        return {
          shape: (await inline.Tensor.concat([weight.value, x]).read()).length,
          instances: [
            ...[y instanceof nn.Tensor, device instanceof nn.Device, weight instanceof nn.Variable],
            ...[layer instanceof nn.Module, layer instanceof inline.Module, nn.WarpweftError === index.WarpweftError],
          ],
          parameters: new Net().parameterCount,
          another: (await nn.Device.new({ prefer })).info.backend === device.info.backend,
        };
      }, [order, prefer]);
      same(seen, { shape: 8, instances: Array(6).fill(true), parameters: 6, another: true }, "what was seen");
      const size = order.includes("models") ? "models" : prefer === "cpu" ? undefined : "nn";
      const one = [`/dist/${[prefer === "cpu" ? "cpu" : "gpu", size].filter(Boolean).join("-")}.wasm`];
      same(loaded, order.includes("inline") ? [] : one, "WebAssembly loaded");
    });
  }
}

await onPage("an entry that is imported before the first device decides, even by a dynamic import", async (page, loaded) => {
  const got = await page.evaluate(async () => {
    const { Device } = await import("/dist/index.js");
    const { Layer, Generator } = await import("/dist/nn.js");
    const device = await Device.new({ prefer: "software" });
    return Layer.linear(new Generator(device, 1), 2, 2).parameterCount;
  });
  same([got, loaded], [6, ["/dist/gpu-nn.wasm"]], "parameters and WebAssembly");
});

for (const start of ["Device.new", "preload"]) {
  await onPage(`a larger entry after ${start}() says which import to move`, async (page, loaded) => {
    const seen = await page.evaluate(async (start) => {
      const { Device, preload, WarpweftError } = await import("/dist/index.js");
      const settings = { prefer: "software" };
      if (start === "preload") preload(settings);
      else await Device.new(settings);
      const refused = [];
      for (const entry of ["nn", "nn", "inline"]) {
        await import(`/dist/${entry}.js`).catch((error) => refused.push([error instanceof WarpweftError, error.message]));
      }
      const device = await Device.new(settings);
      return { refused, got: (await device.tensor([21]).mul(2).read())[0], own: device.tensor([1]) instanceof Object };
    }, start);
    same([seen.got, seen.refused.length, loaded], [42, 3, ["/dist/gpu.wasm"]], "value, refusals and WebAssembly");
    for (const [at, entry] of ["warpweft/nn", "warpweft/nn", "warpweft/inline"].entries()) {
      const [isOwn, message] = seen.refused[at];
      if (!isOwn) throw new Error(`no WarpweftError: ${message}`);
      says(message, `import "${entry}"`, "before the first Device.new()", 'of "warpweft"');
    }
  });
}

await onPage("the CPU's core has all entries, also those that are imported after it started", async (page, loaded) => {
  const seen = await page.evaluate(async () => {
    const { Device, Tensor } = await import("/dist/index.js");
    const device = await Device.new({ prefer: "cpu" });
    const { Generator, Layer, Optimizer } = await import("/dist/nn.js");
    const layer = Layer.linear(new Generator(device, 1), 2, 3);
    const optimizer = Optimizer.sgd(layer, { lr: 0.1 });
    const y = layer.forward(device.ones([4, 2]));
    const shown = [String(optimizer), y instanceof Tensor, (await y.read()).length];
    layer.dispose();
    // The GPU's core was not started yet.
    const gpu = await Device.new({ prefer: "software" });
    return [...shown, layer.disposed, Layer.linear(new Generator(gpu, 1), 2, 2).parameterCount];
  });
  same(seen, ["Optimizer", true, 12, true, 6], "what was seen");
  same(loaded, ["/dist/cpu.wasm", "/dist/gpu-nn.wasm"], "WebAssembly loaded");
});

await onPage("language models need a larger core on the CPU, too", async (page, loaded) => {
  const message = await page.evaluate(async () => {
    const { Device } = await import("/dist/nn.js");
    await Device.new({ prefer: "cpu" });
    return import("/dist/models.js").then(() => "none", String);
  });
  says(message, '"warpweft/models" must be imported before', 'smaller CPU core of "warpweft"');
  same(loaded, ["/dist/cpu.wasm"], "WebAssembly loaded");
});

await onPage("WebAssembly of another core than the page's is refused", async (page) => {
  const messages = await page.evaluate(async () => {
    const { Device } = await import("/dist/index.js");
    const refusal = (wasm) => Device.new({ prefer: wasm.cpu ? "cpu" : "software", wasm }).then(() => "none", String);
    const messages = [];
    for (const gpu of ["/dist/gpu-nn.wasm", "/dist/cpu.wasm"]) messages.push(await refusal({ gpu }));
    messages.push(await refusal({ cpu: "/dist/gpu.wasm" }));
    await import("/dist/nn.js");
    messages.push(await refusal({ gpu: "/dist/gpu.wasm" }));
    return messages;
  });
  const must = 'the WebAssembly must be gpu.wasm, because the page imports "warpweft"';
  says(messages[0], must, "got gpu-nn.wasm");
  says(messages[1], must, "got cpu.wasm");
  says(messages[2], "the WebAssembly must be cpu.wasm", "got gpu.wasm");
  says(messages[3], 'the WebAssembly must be gpu-nn.wasm, because the page imports "warpweft/nn"', "got gpu.wasm");
});

await onPage("objects of a second copy of the package are called so", async (page) => {
  const message = await page.evaluate(async () => {
    const [one, other] = await Promise.all([import("/dist/index.js"), import("/copy1/index.js")]);
    const [x, y] = await Promise.all([one, other].map(async ({ Device }) => (await Device.new({ prefer: "cpu" })).ones([1])));
    try {
      x.add(y);
    } catch ({ code, message }) {
      return `${code}: ${message}`;
    }
  });
  says(message, "InvalidArgument: add:", 'another copy of the package "warpweft"');
});

/** A separate project, with the package as npm installs it. */
const project = mkdtempSync(join(tmpdir(), "warpweft-"));
const home = join(project, "node_modules", "warpweft");
mkdirSync(join(home, "www"), { recursive: true });
cpSync(join(root, "package.json"), join(home, "package.json"));
symlinkSync(dist, join(home, "www", "dist"));

/** Returns the output of Node for a file of the project. */
function node(name, text, ...flags) {
  writeFileSync(join(project, name), text);
  const options = { cwd: project, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] };
  return JSON.parse(execFileSync(process.execPath, ["--preserve-symlinks", ...flags, name], options));
}

const compute = `
  const device = await Device.new();
  const layer = Layer.linear(new Generator(device, 1), 2, 3);
  const y = Tensor.concat([layer.forward(device.ones([4, 2])), device.zeros([1, 3])]);
  let code;
  try { y.add(device.ones([7])); } catch (error) { code = error instanceof WarpweftError && error.code; }
  const facts = [y instanceof Other, (await y.read()).length, String(y), code];`;
const expected = [true, 15, "Tensor(f32 [5, 3] on cpu)", "Shape"];
const names = "const { Device, Tensor, WarpweftError } = a, { Generator, Layer, Tensor: Other } = b;";
const asked = (a, b) => `const a = ${a}, b = ${b}; ${names} ${compute}`;
const run = (body) => `(async () => { ${body} console.log(JSON.stringify(facts)); })();`;
const required = run(asked('require("warpweft")', 'require("warpweft/nn")'));

await test("a CommonJS project where `require` takes ES modules", () => same(node("a.cjs", required), expected, "facts"));

/** Disables `require` of ES modules, as in test runners and in earlier versions of Node. */
const old = "--no-experimental-require-module";
await test("a CommonJS project", () => same(node("b.cjs", required, old), expected, "facts"));

await test("a CommonJS project gets warpweft/nn for warpweft/inline", () => {
  const text = run(`const a = require("warpweft/nn"), b = require("warpweft/inline"); ${names} ${compute}`);
  same(node("c.cjs", text, old), expected, "facts");
});

await test("`require` and `import` give the same classes in Node", () => {
  same(node("d.cjs", run(asked('require("warpweft")', 'await import("warpweft/nn")'))), expected, "facts");
});

const without = "delete globalThis.TextDecoder; delete globalThis.TextEncoder; delete globalThis.MessageChannel;";
await test("without TextDecoder and TextEncoder, as in Jest's jsdom", () => {
  const imported = run(`${without} ${asked('await import("warpweft")', 'await import("warpweft/nn")')}`);
  same(node("e.mjs", imported), expected, "facts of ES modules");
  same(node("f.cjs", `${without} ${required}`, old), expected, "facts of CommonJS");
});

await test("`npm run demo` builds all that its pages import", async () => {
  const entry = readFileSync(join(root, "www", "tools", "demo.mjs"), "utf8").match(/await build\("(\w+)"\)/)[1];
  const demo = join(root, "www", "demo");
  const texts = readdirSync(demo).filter((name) => name.endsWith(".js")).map((name) => readFileSync(join(demo, name), "utf8"));
  const imported = texts.flatMap((text) => [...text.matchAll(/from "\.\.\/dist\/(\w+)\.js"/g)].map(([, name]) => name));
  same([...new Set(imported)].sort(), [entry, ...included[entry]].sort(), "entries");
  const all = await import(join(dist, `${entry}.js`));
  for (const name of included[entry]) {
    const missing = Object.keys(await import(join(dist, `${name}.js`))).filter((key) => !(key in all));
    same(missing, [], `exports of ${name} that ${entry} does not have`);
  }
});

rmSync(project, { recursive: true });
await browser.close();
close();
finish(results);
