// Tests how a page loads the package: what is fetched when and from where, the errors if it cannot be loaded, and its size.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { root } from "../tools/env.mjs";
import { same } from "./cases/harness.js";
import { finish, launch, serve } from "./support/browser.js";

/**
 * The most bytes that a page on a GPU should load of each entry, gzipped. These are guides that may be changed for a reason.
 * They are a twentieth above the current size, because other compilers and folders change the code by about a percent.
 */
const GUIDES = {
  "index.js cpu.js shared.js gpu.wasm": 780_000,
  "nn.js gpu-nn.js cpu.js shared.js shared-nn.js gpu-nn.wasm": 950_000,
  "models.js shared.js shared-nn.js gpu-models.wasm": 1_865_000,
};

/** The cores of all entries. */
const cores = ["gpu", "gpu-nn", "gpu-models", "cpu", "cpu-models"];

const dist = join(root, "www", "dist");
const { address, close } = await serve({ "/dist/": dist });
const browser = await launch();
const results = [];

/** Adds a result: passed unless `body` throws. Each test has a separate page. */
async function test(name, body) {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const errors = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    page.setDefaultTimeout(30_000);
    const timeout = new Promise((_, reject) => setTimeout(() => reject(new Error("nothing for 60 s")), 60_000).unref());
    await Promise.race([body(page, errors), timeout]);
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
  await context.close();
}

function says(text, ...words) {
  for (const word of words) if (!text.includes(word)) throw new Error(`no ${word} in ${text}`);
}

/** Returns the list of wasm files that a page requests. */
function watch(page) {
  const loaded = [];
  page.on("request", (request) => request.url().endsWith(".wasm") && loaded.push(new URL(request.url()).pathname));
  return loaded;
}

/** Returns twice the number 21, computed on a device of the page, or the message of the error. */
const twice = (page, settings = { prefer: "software" }) =>
  page.evaluate(async (settings) => {
    const { Device } = await import("/dist/index.js");
    try {
      const device = await Device.new(settings);
      return { got: (await device.tensor([21]).mul(2).read())[0], backend: device.info.backend, fallback: device.fallback };
    } catch ({ code, message, cause }) {
      return { code, message, cause: cause && String(cause) };
    }
  }, settings);

for (const early of [false, true]) {
  await test(`the core and one adapter are asked for side by side${early ? ", before the device is" : ""}`, async (page) => {
    await page.goto(address);
    const loaded = watch(page);
    const seen = await page.evaluate(async (early) => {
      const { Device, preload } = await import("/dist/index.js");
      const asked = { adapter: 0, wasm: 0 };
      const requested = { adapter: Promise.withResolvers(), wasm: Promise.withResolvers() };
      // Each request waits until the other is made.
      const hold = (object, name, what, other) => {
        const real = object[name];
        object[name] = async function (...given) {
          asked[what] += 1;
          requested[what].resolve();
          await requested[other].promise;
          return real.apply(this, given);
        };
      };
      hold(GPU.prototype, "requestAdapter", "adapter", "wasm");
      hold(globalThis, "fetch", "wasm", "adapter");
      if (early) {
        preload({ prefer: "software" });
        await Promise.all([requested.adapter.promise, requested.wasm.promise]);
      }
      const device = await Device.new({ prefer: "software" });
      const [got] = await device.tensor([21]).mul(2).read();
      return { got, ...asked, own: Object.hasOwn(navigator.gpu, "requestAdapter") };
    }, early);
    same(seen, { got: 42, adapter: 1, wasm: 1, own: false }, "what was asked for");
    same(loaded, ["/dist/gpu.wasm"], "wasm loaded");
  });
}

await test("a second device asks for an adapter of its own, and fetches nothing", async (page) => {
  await page.goto(address);
  const loaded = watch(page);
  same((await twice(page)).got, 42, "the first");
  same((await twice(page)).got, 42, "the second");
  same(loaded, ["/dist/gpu.wasm"], "wasm loaded");
});

await test("a page whose browser has no adapter stops fetching the GPU's core, and gets the CPU's", async (page) => {
  await page.goto(address);
  const seen = await page.evaluate(async () => {
    GPU.prototype.requestAdapter = async () => null;
    const { Device } = await import("/dist/index.js");
    const fetched = [];
    const real = globalThis.fetch;
    globalThis.fetch = async (place, { signal }) => {
      fetched.push([String(place).replace(/.*\//, ""), signal]);
      // A slow connection.
      if (String(place).includes("gpu")) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return real(place, { signal });
    };
    const device = await Device.new();
    const [got] = await device.tensor([21]).mul(2).read();
    return { got, backend: device.info.backend, fetched: fetched.map(([name, { aborted }]) => [name, aborted]) };
  });
  same(seen, { got: 42, backend: "cpu", fetched: [["gpu.wasm", true], ["cpu.wasm", false]] }, "device and fetches");
});

await test("a page without WebGPU fetches no GPU core", async (page) => {
  await page.addInitScript(() => delete Navigator.prototype.gpu);
  await page.goto(address);
  const loaded = watch(page);
  const { code, message } = await twice(page, { prefer: "gpu" });
  same(code, "NoDevice", message);
  const { got, backend, fallback } = await twice(page, {});
  same([got, backend, loaded], [42, "cpu", ["/dist/cpu.wasm"]], "value, device and wasm loaded");
  says(fallback, "WebGPU is not available", "computing on the CPU");
});

await test("a page on a GPU fetches the CPU's core when it is asked for", async (page) => {
  await page.goto(address);
  const loaded = watch(page);
  same((await twice(page)).got, 42, "on the GPU");
  same(loaded, ["/dist/gpu.wasm"], "wasm loaded");
  same((await twice(page, { prefer: "cpu" })).got, 42, "on the CPU");
  same(loaded, ["/dist/gpu.wasm", "/dist/cpu.wasm"], "wasm loaded");
});

await test("an adapter that got old before the device was opened is asked for anew", async (page) => {
  await page.goto(address);
  const seen = await page.evaluate(async () => {
    const { Device, preload } = await import("/dist/index.js");
    const real = GPU.prototype.requestAdapter;
    let asked = 0;
    GPU.prototype.requestAdapter = async function (...given) {
      const adapter = await real.apply(this, given);
      // An adapter gives only one device, so the second request fails, as for a lost GPU.
      if (asked++ === 0) await adapter.requestDevice();
      return adapter;
    };
    preload({ prefer: "software" });
    const device = await Device.new({ prefer: "software" });
    return { got: (await device.tensor([21]).mul(2).read())[0], asked: asked >= 2 };
  });
  same(seen, { got: 42, asked: true }, "value and requests");
});

await test("a server that does not know WebAssembly's type", async (page) => {
  await page.route("**/gpu.wasm", (route) =>
    route.fulfill({ path: join(dist, "gpu.wasm"), contentType: "application/octet-stream" }),
  );
  await page.goto(address);
  same((await twice(page)).got, 42, "value");
});

await test("a page in the place of the WebAssembly says what to do", async (page) => {
  await page.route("**/gpu.wasm", (route) => route.fulfill({ body: "<!doctype html>", contentType: "text/html" }));
  await page.goto(address);
  const { code, message } = await twice(page);
  same(code, "NoDevice", message);
  says(message, "/dist/gpu.wasm must be WebAssembly, got text/html", "`wasm`");
});

await test("a page that Vite 5 to 7 serve, which copied the module elsewhere", async (page) => {
  const moved = await serve({ "/node_modules/.vite/deps/": dist, "/node_modules/warpweft/www/dist/": dist });
  await page.route("**/.vite/deps/*.wasm", (route) => route.fulfill({ body: "<!doctype html>", contentType: "text/html" }));
  await page.goto(moved.address);
  const loaded = watch(page);
  const compute = () =>
    page.evaluate(async () => {
      const { Device } = await import("/node_modules/.vite/deps/index.js");
      const device = await Device.new({ prefer: "cpu" }).catch(({ message }) => message);
      return typeof device === "string" ? device : (await device.tensor([21]).mul(2).read())[0];
    });
  // The package is in another folder.
  await page.route("**/warpweft/**", (route) => route.fulfill({ body: "<!doctype html>", contentType: "text/html" }));
  says(await compute(), "must be WebAssembly, got text/html", '`optimizeDeps: { exclude: ["warpweft"] }`');
  await page.unroute("**/warpweft/**");
  same(await compute(), 42, "value");
  same([...new Set(loaded)], ["/node_modules/warpweft/www/dist/cpu.wasm"], "wasm loaded");
  moved.close();
});

await test("the entry with the WebAssembly inside fetches none, and `warpweft/nn` has more than `warpweft`", async (page) => {
  await page.goto(address);
  const loaded = watch(page);
  const seen = await page.evaluate(async () => {
    const [plain, nn, inline] = await Promise.all(["index", "nn", "inline"].map((name) => import(`/dist/${name}.js`)));
    const devices = await Promise.all(["software", "cpu"].map((prefer) => inline.Device.new({ prefer })));
    const values = await Promise.all(devices.map(async (device) => (await device.tensor([21]).mul(2).read())[0]));
    const more = Object.keys(nn).filter((name) => !(name in plain)).sort();
    const lacking = Object.keys(plain).filter((name) => !(name in nn));
    const same = Object.keys(nn).every((name) => nn[name] === inline[name]);
    return { values, backends: devices.map(({ info }) => info.backend), more, lacking, same };
  });
  const { more, lacking, ...rest } = seen;
  same(rest, { values: [42, 42], backends: ["webgpu", "cpu"], same: true }, "values, devices and classes");
  const models = "Generator Layer Module Optimizer Residual Schedule Sequential Trainer WeightAverage".split(" ");
  same([more, lacking], [models, []], "what one entry has and the other has not");
  same(loaded, [], "wasm loaded");
});

await test("a missing file names its address, and is fetched again the next time", async (page) => {
  let missing = true;
  await page.route("**/gpu.wasm", (route) => (missing ? route.fulfill({ status: 404 }) : route.continue()));
  await page.goto(address);
  const { code, message, cause } = await twice(page);
  same(code, "NoDevice", message);
  says(message, "/dist/gpu.wasm: 404");
  says(cause, "/dist/gpu.wasm: 404");
  missing = false;
  same((await twice(page)).got, 42, "the next time");
});

const kinds = {
  "a URL": (place) => new URL(place, location.href),
  "a text": (place) => place,
  "a response": (place) => fetch(place),
  bytes: async (place) => (await fetch(place)).arrayBuffer(),
  "a module": (place) => WebAssembly.compileStreaming(fetch(place)),
};
for (const [name, kind] of Object.entries(kinds)) {
  await test(`the cores from elsewhere: ${name}`, async (page) => {
    // The usual addresses fail.
    await page.route("**/dist/?pu.wasm", (route) => route.abort());
    for (const core of ["gpu", "gpu-nn", "cpu"]) {
      await page.route(`**/elsewhere/${core}`, (route) =>
        route.fulfill({ path: join(dist, `${core}.wasm`), contentType: "application/wasm" }),
      );
    }
    await page.goto(address);
    const got = await page.evaluate(`(async () => {
      const { Device } = await import("/dist/index.js");
      const kind = ${kind};
      const wasm = { gpu: await kind("/elsewhere/gpu"), cpu: kind("/elsewhere/cpu") };
      const devices = await Promise.all(["software", "cpu"].map((prefer) => Device.new({ prefer, wasm })));
      return Promise.all(devices.map(async (device) => (await device.tensor([21]).mul(2).read())[0]));
    })()`);
    same(got, [42, 42], "values");
  });
}

await test("what is no WebAssembly is refused", async (page) => {
  await page.goto(address);
  for (const wasm of [{ gpu: 1 }, { gpu: {} }, 1, null]) {
    const { code, message } = await twice(page, { prefer: "software", wasm });
    same(code, "InvalidArgument", `${JSON.stringify(wasm)}: ${message}`);
  }
  const { code } = await page.evaluate(async () => {
    const { Device } = await import("/dist/index.js");
    const wasm = { gpu: new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]) };
    return Device.new({ prefer: "software", wasm }).catch(({ code }) => ({ code }));
  });
  same(code, "NoDevice", "an empty module");
});

for (const [policy, allowed] of [["script-src 'self'", false], ["script-src 'self' 'wasm-unsafe-eval'", true]]) {
  await test(`a page with the policy ${policy}`, async (page) => {
    const headers = { "content-type": "text/html", "content-security-policy": policy };
    await page.route(`${address}/`, (route) => route.fulfill({ body: "<!doctype html>", headers }));
    await page.goto(address);
    const { got, code, message, cause } = await twice(page, {});
    if (allowed) return same(got, 42, message);
    same(code, "NoDevice", message);
    says(message, "'wasm-unsafe-eval'");
    says(cause, "CompileError");
  });
}

await test("a panic says its text and place on the console", async (page, errors) => {
  await page.goto(address);
  const thrown = await page.evaluate(async () => {
    const glue = await import("/dist/cpu/warpweft_bg.js");
    const imports = { "./warpweft_bg.js": glue };
    const { instance } = await WebAssembly.instantiateStreaming(fetch("/dist/cpu.wasm"), imports);
    const wasm = instance.exports;
    glue.__wbg_set_wasm(wasm);
    wasm.__wbindgen_start();
    // The allocator checks the size of freed memory. Only calls that bypass the JavaScript can be wrong.
    try {
      wasm.__wbindgen_free(wasm.__wbindgen_malloc(16, 4), 2 ** 20, 4);
    } catch (error) {
      return String(error);
    }
  });
  same(thrown, "RuntimeError: unreachable", "what is thrown");
  says(errors.join("\n"), "panicked at", ".rs:", "assertion failed");
});

await test("the classes have their names, and a map leads to the sources", async (page) => {
  await page.goto(address);
  const names = await page.evaluate(async () => {
    const { Device, Tensor, Variable, WarpweftError } = await import("/dist/index.js");
    const device = await Device.new({ prefer: "cpu" });
    return [Device, Tensor, Variable, WarpweftError, device.tensor([1]).constructor].map(({ name }) => name);
  });
  same(names, ["Device", "Tensor", "Variable", "WarpweftError", "Tensor"], "names");
  says(readFileSync(join(dist, "shared.js"), "utf8"), "//# sourceMappingURL=shared.js.map");
  const { sources, sourcesContent } = JSON.parse(readFileSync(join(dist, "shared.js.map"), "utf8"));
  const at = sources.findIndex((source) => source.endsWith("www/src/load.ts") || source.endsWith("../src/load.ts"));
  same(sourcesContent?.[at], readFileSync(join(root, "www", "src", "load.ts"), "utf8"), "a source in the map");
});

const entries = ["warpweft", "warpweft/nn", "warpweft/models", "warpweft/inline"];
for (const entry of entries) await test(`Node computes on the CPU by ${entry}`, async () => {
  const script = `
    import { Device, preload } from "${entry}";
    preload();
    const device = await Device.new();
    const [got] = await device.tensor([21]).mul(2).read();
    const hasReason = /WebGPU is not available/.test(device.fallback);
    console.log(JSON.stringify({ got, backend: device.info.backend, hasReason }));`;
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: root, encoding: "utf8" });
  same(JSON.parse(printed), { got: 42, backend: "cpu", hasReason: true }, "what Node says");
});

await test("the tarball has what it needs", () => {
  const listed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: root, encoding: "utf8" });
  const files = JSON.parse(listed)[0].files.map(({ path }) => path);
  const modules = ["index", "shared", "shared-nn", "cpu", "gpu-nn", "nn", "models", "inline", "inside"];
  const scripts = modules.map((name) => `${name}.js`);
  const entries = ["index", "nn", "models", "inline"];
  const declared = ["index.js.map", ...entries.flatMap((name) => [`${name}.d.ts`, `${name}.d.cts`])];
  const required = ["index.cjs", "nn.cjs", "models.cjs", "shared.cjs"];
  const names = [...scripts, ...declared, ...required, ...cores.map((core) => `${core}.wasm`)];
  const built = names.map((name) => `www/dist/${name}`);
  for (const file of [...built, "LICENSE-MIT", "LICENSE-APACHE", "README.md"]) {
    if (!files.includes(file)) throw new Error(`${file} is missing`);
  }
  const odd = files.filter((file) => /\.built|\/snippets\/|(gpu|cpu)(-\w+)?\/.*\.js$|_bg\.wasm$/.test(file));
  same(odd, [], "files that are of no use");
  const { resolve } = createRequire(join(root, "package.json"));
  for (const core of cores) {
    if (!existsSync(resolve(`warpweft/${core}.wasm`))) throw new Error(`warpweft/${core}.wasm is nowhere`);
  }
});

await test("no core tells where it was built", () => {
  // Panic messages name source files: of this crate, other crates and std.
  const folders = ["/.cargo/", "/.rustup/", "/rustlib/", `${root}/`, `${homedir()}/`];
  for (const core of cores) {
    const wasm = readFileSync(join(dist, `${core}.wasm`), "latin1");
    same(folders.filter((folder) => wasm.includes(folder)), [], `folders that ${core}.wasm names`);
    says(wasm, "src/plan/mod.rs");
  }
});

for (const [names, guide] of Object.entries(GUIDES)) await test(`a page of ${names} loads less than the guide says`, () => {
  const sizes = names.split(" ").map((name) => gzipSync(readFileSync(join(dist, name)), { level: 9 }).length);
  const sum = sizes.reduce((a, b) => a + b);
  console.log(`gzipped: ${names}: ${sizes.join(" and ")}, together ${sum} bytes`);
  if (sum > guide) throw new Error(`${sum} bytes are more than ${guide}`);
});

await browser.close();
close();
finish(results);
