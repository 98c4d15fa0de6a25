// `npm run build`: the npm package, in www/dist: a wasm core per backend, and the TypeScript around them.
//
// A step whose inputs did not change since it last ran is skipped.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { cargoHome, hasSmallStd, read, root, run, smallStd, tool, webEnv, webTarget } from "./env.mjs";
import { pack, unpack } from "../src/packed.js";
import { nameByOrder } from "./order.mjs";
import { split } from "./split.mjs";
import { setup } from "./setup.mjs";

/** Where the npm package's code is built. */
export const dist = join(root, "www", "dist");

// Inlining makes wasm larger for gzip, even where it makes it smaller in itself.
const inlineNothing = ["always-inline", "one-caller-inline", "flexible-inline"];
const noInlining = inlineNothing.map((which) => `--${which}-max-function-size=0`);

// The memory is the core's own, and its lowest addresses are the stack's last.
const memory = ["--low-memory-unused", "--zero-filled-memory"];

// Expressions and control flow are put together from scratch, which finds more than what the compiler left.
const anew = ["--flatten", "--rereloop"];

const strip = ["--strip-producers", "--strip-target-features"];

/** The wasm cores: what cargo is told, what `wasm-opt` is to strive for, and the parts that are split off. */
const cores = {
  gpu: {
    profile: "web",
    features: "gpu,js",
    optimise: [...noInlining, ...memory, ...anew, "-Oz", "-Oz", "--converge", "--reorder-locals", ...strip],
    // Pointers that loops count along with their index take more code than the multiplication.
    rustflags: ["-Cllvm-args=-disable-lsr"],
    targetDir: webTarget,
    smallStd: true,
    parts: {
      extras: {
        begin: functions(
          "js::extras::",
          "js::plans::",
          "js::tuning::",
          "tune::",
          "op::routine::(?:Attention|Conv2d)>::infer",
          "op::structural::infer_(?:gather|unfold)",
          "plan::lower::Context>::gather",
          "expand::Writer>::attention",
          "plan::kernels::(?:attention|conv2d)",
          "plan::split::take_apart",
          "codegen::routine::(?:attention|conv2d)",
          "codegen::direct::conv2d",
          "codegen::rows::Writer>::pass_on",
        ),
        // Where the core decides by the kind of an operation: there are none of these without the part.
        doors: new RegExp(
          [
            "::js::",
            '::codegen::(?:(?:loops::)?wgsl"|rows::)',
            "::plan::(?:kernels|lower|split)::",
            '::op::\\w+::(?:Routine|Op)>::infer"',
            "::expand::att",
          ].join("|"),
        ),
        data: ["attention", "attention_few", "conv2d_plain"].map(embedded),
      },
      grad: {
        // The closures are the derivatives that rows of the pointwise table bring with them.
        begin: functions("js::gradients::", "grad::", "op::pointwise::Row>::derivative", "op::pointwise::TABLE::.*Expr\\], "),
        doors: /::js::/,
      },
    },
  },
  cpu: {
    profile: "web-cpu",
    features: "cpu,js",
    optimise: ["-O3", ...strip],
    rustflags: ["-Ctarget-feature=+simd128"],
    targetDir: `${webTarget}-cpu`,
    parts: {},
  },
};

/** A pattern of functions of ours, by their paths as the text of a wasm has them. */
function functions(...paths) {
  return new RegExp(String.raw`^\$"<*warpweft\[\w+\]::(?:${paths.join("|")})`);
}

/** A shader's text as `strip` in `src/text.rs` leaves it. */
function embedded(shader) {
  const lines = readFileSync(join(root, "shaders", `${shader}.wgsl`), "utf8").split("\n");
  const kept = lines.filter((line) => !/^ *(\/|@g|$)/.test(line));
  return kept.map((line) => `${line.replace(/^ +/, " ")}\n`).join("");
}

/** The environment that a core is linted and tested in, and with `more` flags built. */
export function coreEnv(name, more = []) {
  const { targetDir, rustflags } = cores[name];
  // Panic messages name source files; they need not tell where on this machine those are.
  const remap = [`--remap-path-prefix=${cargoHome}=cargo`, `--remap-path-prefix=${root}=warpweft`];
  return { ...webEnv(targetDir), CARGO_ENCODED_RUSTFLAGS: [...rustflags, ...more, ...remap].join("\x1f") };
}

/** What builds a core besides its features: the environment, and options for cargo. */
function coreBuild(name) {
  if (!cores[name].smallStd) return { env: coreEnv(name), options: [] };
  if (hasSmallStd()) {
    return { env: { ...coreEnv(name, smallStd.rustflags), ...smallStd.env }, options: smallStd.cargo };
  }
  console.log(`build: ${name} core: WITHOUT a std built for size, so larger: there are no sources of std (npm run setup)`);
  return { env: coreEnv(name), options: [] };
}

/** Builds what has changed. */
export async function build() {
  await setup(["rust", "node", "wasm32", "stdSources", "wasmTools"]);
  const scripts = ["build", "order", "split"].map((name) => `www/tools/${name}.mjs`);
  const rust = ["src", "shaders", "Cargo.toml", "Cargo.lock", "www/src/packed.js", ...scripts];
  for (const name of Object.keys(cores)) {
    const compiler = read("rustc", ["--version"], { env: coreEnv(name) }) + hasSmallStd();
    const output = join(dist, name, "core.wasm");
    await step(`${name} core`, [...rust, "package-lock.json"], compiler, output, () => buildCore(name));
  }
  if (existsSync(join(root, "www", "src"))) {
    // The GPU core's glue becomes part of the module.
    const glue = ["warpweft.d.ts", "warpweft.js"];
    const cored = Object.keys(cores).flatMap((name) => glue.map((file) => relative(root, join(dist, name, file))));
    const inputs = ["www/src", "www/tsconfig.json", "package-lock.json", "src/backend/webgpu", ...cored];
    await step("TypeScript", inputs, "", join(dist, "index.js"), buildTypes);
  }
  for (const name of Object.keys(cores)) console.log(`build: ${name} core: ${sizes(join(dist, name))}`);
}

/** Runs TypeScript's compiler on www/src. */
export function tsc(args) {
  const project = ["-p", join("www", "tsconfig.json")];
  return run(process.execPath, [nodeTool("typescript", "tsc"), ...project, ...args]);
}

async function buildCore(name) {
  const { profile, features, optimise, parts } = cores[name];
  const out = join(dist, name);
  rmSync(out, { recursive: true, force: true });
  const places = ["--target", "web", "--out-dir", out, "--out-name", "warpweft"];
  // wasm-opt is ours to run: wasm-pack would download one.
  const less = ["--no-pack", "--no-opt", "--mode", "no-install"];
  const { env, options } = coreBuild(name);
  const cargo = ["--no-default-features", "--features", features, ...options];
  const args = ["build", root, "--profile", profile, ...places, ...less, "--", "--locked", ...cargo];
  await run(tool("wasm-pack"), args, { env });

  const [wasm, glue] = [join(out, "warpweft_bg.wasm"), join(out, "warpweft.js")];
  const whole = join(out, "whole.wat");
  await wasmOpt(wasm, whole, ...optimise, "-g", "-S");
  const [script, text] = shortenNames([readFileSync(glue, "utf8"), readFileSync(whole, "utf8")]);
  writeFileSync(glue, withPlainStart(script));
  const texts = split(text, parts);
  for (const [part, text] of Object.entries(texts)) {
    const [written, file] = [join(out, `${part}.wat`), join(out, `${part}.wasm`)];
    writeFileSync(written, text);
    await wasmOpt(written, file);
    nameByOrder(file);
    await wasmOpt(file, file, "--reorder-functions-by-name", "--strip-debug");
    const bytes = readFileSync(file);
    const packed = pack(bytes);
    if (!bytes.equals(unpack(packed))) throw new Error(`${file} is not the same again when it was packed`);
    writeFileSync(file, packed);
  }
  for (const extra of readdirSync(out)) {
    if (/\.wat$|_bg\.|gitignore|package\.json|README/.test(extra)) rmSync(join(out, extra));
  }
  for (const module of ["warpweft.js", ...snippets(out)]) await minifyModule(join(out, module));
}

/** Runs wasm-opt on a file, or its text. */
function wasmOpt(input, output, ...options) {
  // What rustc's wasm uses by default and what we add, all of it in every browser that has WebGPU.
  const old = ["bulk-memory", "mutable-globals", "multivalue", "nontrapping-float-to-int"];
  const enable = [...old, "reference-types", "sign-ext", "simd"].map((feature) => `--enable-${feature}`);
  return run(process.execPath, [nodeTool("binaryen", "wasm-opt"), input, "-o", output, ...enable, ...options], { quiet: true });
}

/**
 * A glue without what it has to find and load its wasm in many ways, because it is given the bytes; and without what it
 * has for browsers that lack something which the rest of the package needs, too.
 */
function withPlainStart(script) {
  const begin = script.indexOf("async function __wbg_load(");
  if (begin < 0) throw new Error("the glue begins in another way");
  const registry = /\(typeof FinalizationRegistry === 'undefined'\)\s*\? \{.*\}\s*: /;
  const encoder = /^if \(!\('encodeInto' in cachedTextEncoder\)\) \{\n[^]*?\n\}\n/m;
  return `${script.slice(0, begin).replace(registry, "").replace(encoder, "")}
export default async function start(wasm) {
  return __wbg_finalize_init((await WebAssembly.instantiate(wasm, __wbg_get_imports())).instance);
}`;
}

/** Names that tools gave to what a wasm and its glue have of each other, in both as short as can be. */
function shortenNames(texts) {
  const short = new Map();
  const names = /\b(__wb\w+_[0-9a-f]{16}|wasm_bindgen_[0-9a-f]{16}___convert__closures_\w+|\.\/warpweft_bg\.js)\b/g;
  return texts.map((text) =>
    text.replace(names, (name) => {
      if (!short.has(name)) short.set(name, `w${short.size.toString(36)}`);
      return short.get(name);
    }),
  );
}

async function buildTypes() {
  // What the last build made from a source that is gone by now must not be published.
  const kept = [...Object.keys(cores), basename(stamps)];
  for (const old of readdirSync(dist).filter((name) => !kept.includes(name))) {
    rmSync(join(dist, old), { recursive: true });
  }
  await tsc([]);
  await bundle();
}

/** A module that is loaded when it is needed. */
const apart = "stored.js";

/** Makes one module of what TypeScript's compiler wrote and the GPU core's glue; the declarations stay as they are. */
async function bundle() {
  const { build: vite } = await import("vite"); // Here, because setup installs it.
  const entry = join(dist, "index.js");
  const external = [join(dist, "cpu", "warpweft.js"), join(dist, apart)];
  const lib = { entry, formats: ["es"], fileName: "index" };
  const options = { outDir: dist, emptyOutDir: false, target: "es2022", lib, rolldownOptions: { external } };
  await vite({ configFile: false, root, logLevel: "warn", publicDir: false, build: options });
  const kept = [basename(entry), apart];
  for (const name of readdirSync(dist).filter((file) => file.endsWith(".js") && !kept.includes(file))) {
    rmSync(join(dist, name));
  }
  for (const name of kept) await minifyModule(join(dist, name));
}

/** Shortens a JavaScript module in place. */
async function minifyModule(path) {
  const { minify } = await import("vite");
  const options = { module: true, compress: { target: "es2022" }, mangle: { toplevel: true } };
  const { code, errors } = await minify(path, readFileSync(path, "utf8"), { ...options, codegen: { removeWhitespace: true } });
  if (errors.length) throw new Error(`${path}: ${errors.map(({ message }) => message).join("; ")}`);
  writeFileSync(path, code);
}

const stamps = join(dist, ".built.json");

/** Runs `make` unless `output` is there and was made from inputs just like today's. */
async function step(title, inputs, also, output, make) {
  const built = existsSync(stamps) ? JSON.parse(readFileSync(stamps, "utf8")) : {};
  const hash = createHash("sha256").update(also);
  for (const file of inputs.flatMap(filesUnder)) hash.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  const stamp = hash.digest("hex");
  if (built[title] === stamp && existsSync(output)) {
    console.log(`build: ${title}: unchanged`);
    return;
  }
  console.log(`build: ${title}`);
  const start = Date.now();
  const save = (value) => {
    mkdirSync(dist, { recursive: true });
    writeFileSync(stamps, JSON.stringify({ ...built, [title]: value }, null, 2));
  };
  save(undefined); // A build that is stopped half-way is not to be taken for done.
  await make();
  save(stamp);
  console.log(`build: ${title}: done in ${Math.round((Date.now() - start) / 1000)} s`);
}

/** The files at or under a path of the repository, in a fixed order; none where there is nothing. */
function filesUnder(path) {
  const full = join(root, path);
  if (!existsSync(full)) return [];
  if (statSync(full).isFile()) return [path];
  return readdirSync(full).sort().flatMap((name) => filesUnder(`${path}/${name}`));
}

/** The script behind a program of an npm package. */
function nodeTool(pack, name) {
  const home = join(root, "node_modules", pack);
  const { bin } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  return join(home, typeof bin === "string" ? bin : bin[name]);
}

/** The files below `dir/snippets`: JavaScript of ours that the core imports, where it has any. */
function snippets(dir) {
  if (!existsSync(join(dir, "snippets"))) return [];
  const entries = readdirSync(join(dir, "snippets"), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(dir, join(entry.parentPath, entry.name)));
}

/** What a browser loads for a core: the wasm and its JavaScript, raw and compressed. */
function sizes(dir) {
  const kb = (bytes) => `${(bytes / 1000).toFixed(1)} KB`;
  const size = (name) => {
    const data = readFileSync(join(dir, name));
    return `${basename(name)} ${kb(data.length)}, ${kb(gzipSync(data, { level: 9 }).length)} gzipped`;
  };
  const files = readdirSync(dir).filter((name) => name.endsWith(".wasm"));
  return [...files, "warpweft.js", ...snippets(dir)].map(size).join("; ");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await build().catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
