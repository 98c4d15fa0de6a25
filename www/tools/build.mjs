// `npm run build`: the npm package, in www/dist.
//
// 1. For each core wasm-pack compiles the Rust (cargo) and writes the JavaScript around it (wasm-bindgen), and wasm-opt
//    makes the wasm smaller and faster: gpu.wasm, gpu-nn.wasm (with layers, optimizers and the trainer), cpu.wasm,
//    and gpu-models.wasm and cpu-models.wasm, which have language models, too.
// 2. TypeScript's compiler checks www/src and writes the declarations; Vite makes modules of it for the entries of the package
//    (`script.mjs`): index.js, nn.js, models.js and inline.js, and shared.js, which has the classes of all of them.
//
// A step whose inputs did not change since it last ran is skipped.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { cargoHome, read, root, run, tool, webEnv, webTarget } from "./env.mjs";
import { ownPointers } from "./glue.mjs";
import { say, step as progress } from "./progress.mjs";
import { buildEntry, buildScript } from "./script.mjs";
import { setup } from "./setup.mjs";

/** Where the npm package's code is built. */
export const dist = join(root, "www", "dist");

/**
 * The wasm cores. The profiles are in Cargo.toml; where the flags differ, so do the folders that cargo builds in. `usual` is
 * about how many seconds a build takes.
 */
const cores = {
  gpu: { profile: "web", features: "gpu,js,wgpu-interop", optimise: "-Oz", rustflags: [], target: webTarget, usual: 120 },
  "gpu-nn": {
    ...{ profile: "web", features: "gpu,js-nn,wgpu-interop", optimise: "-Oz", usual: 150 },
    ...{ rustflags: [], target: webTarget },
  },
  "gpu-models": {
    ...{ profile: "web", features: "gpu,js-models,wgpu-interop", optimise: "-Oz", usual: 200 },
    ...{ rustflags: [], target: webTarget },
  },
  // Both entries have this one: a page that computes on the CPU has other worries than a fifth of its download.
  cpu: {
    ...{ profile: "web-cpu", features: "cpu,js-nn", optimise: "-O3", usual: 150 },
    ...{ rustflags: ["-Ctarget-feature=+simd128"], target: `${webTarget}-cpu` },
  },
  "cpu-models": {
    ...{ profile: "web-cpu", features: "cpu,js-models", optimise: "-O3", usual: 200 },
    ...{ rustflags: ["-Ctarget-feature=+simd128"], target: `${webTarget}-cpu` },
  },
};

/** The cores that entries of the package can start. */
const coresOf = { index: ["gpu", "cpu"], nn: ["gpu-nn", "cpu"], models: ["gpu-models", "cpu-models"] };

/** The environment that a core is built, linted and tested in. */
export function coreEnv(name) {
  const { target, rustflags } = cores[name];
  const env = webEnv(target);
  const std = join(read(env.RUSTC ?? "rustc", ["--print", "sysroot"], { env }), "lib", "rustlib", "src", "rust");
  // Panic messages name source files; they need not tell where on this machine those are.
  const places = { [cargoHome]: "cargo", [root]: "warpweft", [std]: "rust" }; // The last one that fits counts.
  const remap = Object.entries(places).map(([path, told]) => `--remap-path-prefix=${path}=${told}`);
  return { ...env, CARGO_ENCODED_RUSTFLAGS: [...rustflags, ...remap].join("\x1f") };
}

/**
 * Builds what has changed: the whole package, or, for `entry`, what a page needs that imports this entry alone. A package that
 * is there as a whole stays whole.
 */
export async function build(entry) {
  await setup(["rust", "crates", "node", "wasm32", "wasmTools"]);
  const isWhole = entry === undefined || existsSync(join(dist, "index.js"));
  const names = isWhole ? Object.keys(cores) : coresOf[entry];
  const tools = ["package-lock.json", "www/tools/build.mjs", "www/tools/glue.mjs"];
  const rust = ["src", "shaders", "Cargo.toml", "Cargo.lock"];
  // Side by side: much of it is linking, on one processor.
  await Promise.all(names.map((name) => {
    const compiler = read("rustc", ["--version"], { env: coreEnv(name) });
    const { usual } = cores[name];
    return step(`${name} core`, usual, [...rust, ...tools], compiler, `${name}.wasm`, () => buildCore(name));
  }));
  const glue = names.flatMap((name) => [`www/dist/${name}`, `www/dist/${name}.wasm`]);
  // All that pages load is made of these.
  const script = ["www/src", "www/tsconfig.json", "www/tools/script.mjs", ...glue, ...tools];
  const [title, make] = isWhole ? ["JavaScript", buildScript] : [`JavaScript of ${entry}`, () => buildEntry(entry)];
  if (!(await step(title, 20, script, "", isWhole ? "index.js" : `${entry}.js`, make)) || !isWhole) return;
  const wasm = Object.keys(cores).map((name) => `${name}.wasm`);
  const made = [...wasm, "shared.js", "index.js", "shared-nn.js", "nn.js", "models.js"];
  for (const file of made) say(`build: ${file}: ${sizes(join(dist, file))}`);
}

async function buildCore(name) {
  const { profile, features, optimise } = cores[name];
  const out = join(dist, name);
  rmSync(out, { recursive: true, force: true });
  const to = ["--target", "bundler", "--out-dir", out, "--out-name", "warpweft", "--no-pack", "--no-gitignore"];
  const cargo = ["--locked", "--no-default-features", "--features", features];
  const args = ["build", root, "--profile", profile, "--mode", "no-install", ...to, "--", ...cargo];
  await run(tool("wasm-pack"), args, { env: coreEnv(name), quiet: true });

  const [script, declared] = ["warpweft_bg.js", "warpweft.d.ts"].map((file) => join(out, file));
  writeFileSync(script, ownPointers(readFileSync(script, "utf8"), name.split("-")[0]));
  renameSync(declared, join(out, "classes.txt")); // TypeScript's compiler is not to find it.
  // `load.ts` starts the core. The file for bundlers that know WebAssembly is not used.
  const unused = readdirSync(out).filter((file) => file === "warpweft.js" || file.endsWith(".d.ts"));
  for (const file of unused) rmSync(join(out, file));
  const compiled = join(out, "warpweft_bg.wasm");
  // Beside the module that asks for it.
  const places = [compiled, "-o", join(dist, `${name}.wasm`)];
  await run(process.execPath, [nodeTool("binaryen", "wasm-opt"), ...places, optimise, "--strip-producers"]);
  rmSync(compiled);
}

/** Runs TypeScript's compiler on www/src, or by another folder's settings. */
export function tsc(args, folder = "www") {
  const project = ["-p", join(folder, "tsconfig.json")];
  return run(process.execPath, [nodeTool("typescript", "tsc"), ...project, ...args]);
}

/** Checks a file of www/tests/types against the built declarations, all of which are checked, too. */
export function typecheck(file, lib) {
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--skipLibCheck", "false"];
  const modules = ["--module", "esnext", "--moduleResolution", "bundler", "--target", "es2022", "--types", ""];
  const path = join(root, "www", "tests", "types", file);
  return run(process.execPath, [nodeTool("typescript", "tsc"), "--noEmit", ...strict, ...modules, "--lib", lib, path]);
}

const stamps = join(dist, ".built.json");

/** Runs `make` unless `output` is there and was made from inputs just like today's; whether it ran. */
async function step(title, usual, inputs, also, output, make) {
  const built = () => (existsSync(stamps) ? JSON.parse(readFileSync(stamps, "utf8")) : {});
  const hash = createHash("sha256").update(also);
  for (const file of inputs.flatMap(filesUnder)) hash.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  const stamp = hash.digest("hex");
  if (built()[title] === stamp && existsSync(join(dist, output))) {
    say(`build: ${title}: unchanged`);
    return false;
  }
  const save = (value) => {
    mkdirSync(dist, { recursive: true });
    writeFileSync(stamps, JSON.stringify({ ...built(), [title]: value }, null, 2));
  };
  save(undefined); // A build that is stopped half-way is not to be taken for done.
  await progress(`build: ${title}`, usual, make);
  save(stamp);
  return true;
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

/** A file's size, raw and compressed. */
function sizes(file) {
  const data = readFileSync(file);
  const kb = (bytes) => `${(bytes.length / 1000).toFixed(1)} KB`;
  return `${kb(data)}, ${kb(gzipSync(data, { level: 9 }))} gzipped, ${kb(brotliCompressSync(data))} with brotli`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await build().catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
