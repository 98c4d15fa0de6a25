// The package in bundlers, frameworks and test runners. For each, a small project in www/integrations is built and run with the
// package as npm installs it. The result must be the product of two small matrices. `docs/integrations.md` lists the projects.
//
// Runs five projects that are quick to install, or the named ones, or with `--all` all of them. `--keep` leaves the installed
// projects in out/integrations.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { delimiter, join } from "node:path";
import { parseArgs } from "node:util";
import { hasGpu, nativeEnv, root, run } from "../tools/env.mjs";
import { finish, launch, open, serve } from "./support/browser.js";
import { start } from "./support/server.js";

const out = join(root, "out", "integrations");
const quick = ["page", "entries", "rollup", "esbuild", "typescript"];

/** [[1, 2], [3, 4]] x [[5, 6], [7, 8]]. */
const onCpu = "19 22 43 50 on cpu";
const onWebGpu = "19 22 43 50 on webgpu";
/** The kind of WebGPU device on this machine. */
const gpu = hasGpu() ? "gpu" : "software";

function same(actual, expected, what) {
  if (actual !== expected) throw new Error(`${what}: ${actual} instead of ${expected}`);
}

let browser;

/**
 * Opens a page on the CPU and on WebGPU. Each of its outputs must show the product, and the console no errors. `look` may check
 * more of the page.
 */
async function visit(address, look) {
  for (const [prefer, expected] of [["cpu", onCpu], [gpu, onWebGpu]]) {
    const shown = await outputs(`${address}?prefer=${prefer}`, { look });
    for (const text of shown) same(text, expected, address);
  }
}

/** Returns the outputs of a page after all of them have a value. Rejects errors on the console. */
async function outputs(address, { allowed = /^$/, look } = {}) {
  browser ??= await launch();
  const { page, errors } = await open(browser, address);
  try {
    const filled = () => {
      const all = [...document.querySelectorAll("output")];
      return all.length > 0 && all.every(({ textContent }) => textContent) && all.map(({ textContent }) => textContent);
    };
    const shown = await page.waitForFunction(filled, undefined, { timeout: 90_000 }).then((found) => found.jsonValue());
    const odd = errors.filter((error) => !allowed.test(error));
    if (odd.length) throw new Error(`${address}: errors on the console: ${odd.join("; ")}`);
    await look?.(page);
    return shown;
  } catch (error) {
    throw new Error(`${error.message}; on the console: ${errors.join("; ") || "nothing"}`, { cause: error });
  } finally {
    await page.close();
  }
}

/** Options of a program without output that is killed after `seconds` seconds. */
const within = (seconds) => ({ quiet: true, timeout: seconds * 1000, killSignal: "SIGKILL" });

/** A project that is installed in a folder. */
class Project {
  constructor(folder) {
    this.folder = folder;
  }

  /** Returns the version of an installed package. */
  version(name) {
    return JSON.parse(readFileSync(join(this.folder, "node_modules", name, "package.json"), "utf8")).version;
  }

  /** Runs a program to its end. Returns the last line of its output. */
  async run(program, args, env = {}) {
    const path = [join(this.folder, "node_modules", ".bin"), process.env.PATH].join(delimiter);
    const options = { cwd: this.folder, env: { ...environment, PATH: path, ...env } };
    return (await run(program, args, { ...options, ...within(300) })).trim().split("\n").at(-1);
  }

  /** Runs one of the project's scripts to its end. */
  script(name, ...args) {
    return this.run("npm", ["run", "--silent", name, ...(args.length ? ["--", ...args] : [])]);
  }

  /** Starts one of the project's servers with a free port in its arguments, visits it and stops it. */
  async served(program, args, use, env = {}) {
    const server = await start(program, args, { cwd: this.folder, env: { ...environment, ...env } });
    try {
      await use(server.address);
    } catch (error) {
      throw new Error(`${[program, ...args].join(" ")}: ${error.message}\n${server.output()}`, { cause: error });
    } finally {
      await server.stop();
    }
  }

  /** Serves the project's files unchanged, below a path. */
  async files(use, at = "/", folder = "") {
    const { address, close } = await serve({ [at]: join(this.folder, folder) });
    try {
      await use(`${address}${at}`);
    } finally {
      close();
    }
  }
}

/** The environment of every program: no questions, no colors, and Vulkan on the CPU if there is no GPU. */
const environment = {
  ...nativeEnv(),
  ...{ NODE_ENV: undefined }, // `npm test` builds with Vite, which sets this variable. npm would then skip the tools.
  ...{ NEXT_TELEMETRY_DISABLED: "1", ASTRO_TELEMETRY_DISABLED: "1", DO_NOT_TRACK: "1", NO_COLOR: "1" },
  ...{ CI: "1", DENO_NO_UPDATE_CHECK: "1" },
};

/**
 * Returns the environment of `webgpu`. Its Dawn needs more features of Vulkan than older versions of lavapipe have. Without a
 * GPU, it therefore gets Chromium's Vulkan on the CPU.
 */
function swiftshader() {
  const folders = ["/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome"];
  const driver = folders.map((folder) => join(folder, "vk_swiftshader_icd.json")).find(existsSync);
  return hasGpu() || !driver ? {} : { VK_ICD_FILENAMES: driver, VK_DRIVER_FILES: driver };
}

const npm = (script, ...args) => ["npm", ["run", "--silent", script, "--", ...args]];

/** Visits a page for each of some files. */
const pages = (...names) => (project) => project.files(async (at) => {
  for (const name of names) await visit(`${at}${name}`);
});

/** Returns the result of a server at an address. */
async function asked(address) {
  const response = await fetch(address);
  same((await response.text()).trim(), onCpu, `${response.status} ${address}`);
}

/** Visits Vite's development server and its build, below a folder. */
const vite = (tool, at = ".") => async (project) => {
  const program = join(project.folder, "node_modules", tool, "bin", "vite.js");
  const args = [at, "--host", "127.0.0.1", "--port", "PORT", "--strictPort"];
  rmSync(join(project.folder, "node_modules", ".vite"), { recursive: true, force: true });
  await project.served(process.execPath, [program, ...args], visit);
  await project.run(process.execPath, [program, "build", at]);
  await project.served(process.execPath, [program, "preview", ...args], visit);
};

/** Runs a version of Node. */
const node = (tool) => async (project) => {
  const bin = tool ? join(project.folder, "node_modules", tool, "bin") : "";
  const program = tool ? join(bin, "node") : process.execPath;
  for (const file of ["server.js", "import.js", "require.cjs"]) same(await project.run(program, [file]), onCpu, file);
};

/** The integrations: the folder of the project, the packages whose versions are printed, and the test. */
const integrations = {
  page: { try: pages("plain.html", "worker.html") },
  "import-map": { at: "page", try: pages("import-map.html") },
  "sub-path": {
    at: "page",
    try: (project) => project.files((at) => visit(`${at}worker.html`), "/some/where/"),
  },
  csp: {
    at: "page",
    try: (project) => project.files(async (at) => {
      await visit(`${at}csp.html`);
      const [text] = await outputs(`${at}csp-strict.html?prefer=cpu`, { allowed: /unsafe-eval/ });
      if (!text.includes("'wasm-unsafe-eval'")) throw new Error(`the error does not say what helps: ${text}`);
    }),
  },
  "vite-5": { at: "vite", tools: ["vite-5"], try: vite("vite-5") },
  "vite-6": { at: "vite", tools: ["vite-6"], try: vite("vite-6") },
  "vite-7": { at: "vite", tools: ["vite-7"], try: vite("vite-7") },
  "vite-8": { at: "vite", tools: ["vite-8"], try: vite("vite-8") },
  workspace: { tools: ["vite"], try: vite("vite", "app") },
  webpack: {
    tools: ["webpack"],
    try: async (project) => {
      await project.script("build");
      await pages("index.html")(project);
    },
  },
  // Modules of one page import different entries, and pass tensors to each other.
  entries: {
    tools: ["vite", "webpack"],
    try: async (project) => {
      await pages("import-map.html")(project);
      await vite("vite")(project);
      await project.script("build-webpack");
      await pages("webpack.html")(project);
    },
  },
  rollup: {
    tools: ["rollup"],
    try: async (project) => {
      for (const script of ["build", "build-inline"]) await project.script(script);
      await pages("index.html", "inline.html")(project);
      rmSync(join(project.folder, "dist"), { recursive: true });
      await project.script("build-assets");
      await pages("index.html")(project);
    },
  },
  esbuild: {
    tools: ["esbuild"],
    try: async (project) => {
      for (const script of ["build", "build-classic", "build-inline", "build-lost"]) await project.script(script);
      await pages("index.html", "classic.html", "inline.html")(project);
      await project.files(async (at) => {
        const [text] = await outputs(`${at}lost.html?prefer=cpu`);
        if (!/`wasm`.*warpweft\/inline/.test(text)) throw new Error(`the error does not say what helps: ${text}`);
      });
    },
  },
  parcel: {
    tools: ["parcel"],
    try: async (project) => {
      await project.script("build");
      await project.files((at) => visit(`${at}index.html`), "/", "dist");
    },
  },
  next: {
    tools: ["next"],
    try: async (project) => {
      const both = async (address) => {
        await visit(address);
        await asked(`${address}api/product`);
      };
      const server = (script) => project.served(...npm(script, "--port", "PORT", "--hostname", "127.0.0.1"), both);
      await server("dev");
      for (const build of ["build", "build-webpack"]) {
        await project.script(build);
        await server("start");
      }
    },
  },
  sveltekit: {
    tools: ["@sveltejs/kit", "svelte", "vite"],
    try: async (project) => {
      const both = async (address) => {
        await visit(address);
        await asked(`${address}api/product`);
      };
      await project.served(...npm("dev", "--host", "127.0.0.1", "--port", "PORT"), both);
      await project.script("build");
      await project.served(...npm("start"), both, { HOST: "127.0.0.1", PORT: "PORT" });
    },
  },
  astro: {
    tools: ["astro"],
    try: async (project) => {
      const both = async (address) => {
        await visit(address);
        const text = await (await fetch(address)).text();
        if (!text.includes(`>${onCpu}<`)) throw new Error(`the server computed nothing: ${text}`);
      };
      const args = ["--host", "127.0.0.1", "--port", "PORT"];
      await project.served(...npm("dev", ...args), both);
      await project.script("build");
      await project.served(...npm("preview", ...args), both);
    },
  },
  react: {
    tools: ["react", "vite"],
    try: async (project) => {
      const args = ["--host", "127.0.0.1", "--port", "PORT"];
      const effects = (wanted) => async (page) => {
        same(await page.locator("output").getAttribute("data-effects"), wanted, "effects that ran");
      };
      await project.served(...npm("dev", ...args), (address) => visit(address, effects("2")));
      await project.script("build");
      await project.served(...npm("preview", ...args), (address) => visit(address, effects("1")));
    },
  },
  node: { try: node() },
  "node-22": { at: "node", tools: ["node-22"], try: node("node-22") },
  "node-24": { at: "node", tools: ["node-24"], try: node("node-24") },
  "node-26": { at: "node", tools: ["node-26"], try: node("node-26") },
  "node-webgpu": {
    tools: ["webgpu"],
    try: async (project) => same(await project.run(process.execPath, ["main.js", gpu], swiftshader()), onWebGpu, "main.js"),
  },
  deno: {
    tools: ["deno"],
    try: async (project) => same(await project.script("start"), onCpu, "server.js"),
  },
  "deno-webgpu": {
    at: "deno",
    tools: ["deno"],
    try: async (project) => same(await project.script("webgpu", gpu), onWebGpu, "webgpu.js"),
  },
  bun: {
    tools: ["bun"],
    try: async (project) => same(await project.script("start"), onCpu, "server.js"),
  },
  "bun-build": {
    at: "bun",
    tools: ["bun"],
    try: async (project) => {
      for (const script of ["build", "build-inline"]) await project.script(script);
      await pages("index.html", "inline.html")(project);
    },
  },
  jest: { tools: ["jest"], try: (project) => project.script("test") },
  "jest-jsdom": { tools: ["jest", "jest-environment-jsdom"], try: (project) => project.script("test") },
  vitest: { tools: ["vitest"], try: (project) => project.script("test") },
  typescript: {
    tools: ["typescript-5", "typescript-7"],
    try: async (project) => {
      for (const tool of ["typescript-5", "typescript-7"]) {
        const tsc = join(project.folder, "node_modules", tool, "bin", "tsc");
        for (const config of ["bundler", "nodenext", "node-only", "node16"]) {
          await project.run(process.execPath, [tsc, "-p", `tsconfig.${config}.json`]);
        }
      }
    },
  },
};

/** Packs the package as npm does, where the projects expect it. */
async function pack() {
  mkdirSync(out, { recursive: true });
  const made = await run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", out], { quiet: true });
  renameSync(join(out, made.trim().split("\n").at(-1)), join(out, "warpweft.tgz"));
}

/** Copies a project of www/integrations into its own folder, with all dependencies. */
async function install(at) {
  const folder = join(out, at);
  // Keeps the tools of an earlier run, but not the package, which is new.
  const kept = join(folder, "node_modules");
  mkdirSync(kept, { recursive: true });
  const old = readdirSync(folder).filter((name) => name !== "node_modules").map((name) => join(folder, name));
  for (const path of [...old, join(kept, "warpweft"), join(kept, ".package-lock.json")]) {
    rmSync(path, { recursive: true, force: true });
  }
  const files = join(root, "www", "integrations");
  cpSync(join(files, at), folder, { recursive: true });
  for (const file of ["page.js", "product.js"]) cpSync(join(files, file), join(folder, file));
  const args = ["install", "--no-audit", "--no-fund", "--no-package-lock"];
  await run("npm", args, { cwd: folder, env: environment, ...within(600) });
  return new Project(folder);
}

const options = { all: { type: "boolean" }, keep: { type: "boolean" } };
const { values, positionals } = parseArgs({ options, allowPositionals: true });
const named = values.all ? Object.keys(integrations) : positionals;
const unknown = named.filter((name) => !integrations[name]);
if (unknown.length) {
  throw new Error(`integrations must be among ${Object.keys(integrations).join(", ")}, got ${unknown.join(", ")}`);
}

const results = [];
const installed = {};
await pack();
for (const name of named.length ? named : quick) {
  const { at = name, tools = [], try: attempt } = integrations[name];
  const began = Date.now();
  installed[at] ??= install(at);
  const project = await installed[at].catch((error) => {
    console.log(`NOT RUN ${name}: ${error.message}`);
    if (named.length) results.push({ name, error: "NOT RUN: its tools could not be installed" });
  });
  if (!project) continue;
  try {
    const versions = tools.map((tool) => `${tool} ${project.version(tool)}`).join(", ") || `node ${process.versions.node}`;
    console.log(`${name}: ${versions}`);
    await attempt(project);
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
  console.log(`${name}: ${results.at(-1).error ? "FAILED" : "open"}, ${Math.round((Date.now() - began) / 1000)} s`);
}
await browser?.close();
if (!values.keep) for (const at of Object.keys(installed)) rmSync(join(out, at), { recursive: true, force: true });
finish(results);
