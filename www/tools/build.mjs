// `npm run build`: builds the npm package in www/dist.
//
// 1. For each core, wasm-pack compiles the Rust code (cargo) and generates JavaScript for it (wasm-bindgen). wasm-opt then
//    makes the WebAssembly smaller and faster. The results are gpu.wasm, gpu-nn.wasm (with layers, optimizers and the trainer),
//    cpu.wasm, gpu-models.wasm and cpu-models.wasm (with language models).
// 2. TypeScript's compiler checks www/src and writes the declarations. Vite bundles modules for the entries of the package
//    (`script.mjs`): index.js, nn.js, models.js, inline.js, and shared.js with the classes of all entries.
//
// A step is skipped if its inputs did not change since its last run.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { cargoHome, dist, nodeTool, read, root, run, tool, webEnv, webTarget } from "./env.mjs";
import { ownPointers } from "./glue.mjs";
import { say, step as progress } from "./progress.mjs";
import { buildEntry, buildScript } from "./script.mjs";
import { setup } from "./setup.mjs";

/**
 * The WebAssembly cores. The profiles are in Cargo.toml. Cores with different flags have different target folders. `usual` is
 * the approximate time of a build in seconds.
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
  // Both entries use this core, because a smaller CPU core without layers would save only a fifth of the download.
  cpu: {
    ...{ profile: "web-cpu", features: "cpu,js-nn", optimise: "-O2", usual: 150 },
    ...{ rustflags: ["-Ctarget-feature=+simd128"], target: `${webTarget}-cpu` },
  },
  "cpu-models": {
    ...{ profile: "web-cpu", features: "cpu,js-models", optimise: "-O2", usual: 200 },
    ...{ rustflags: ["-Ctarget-feature=+simd128"], target: `${webTarget}-cpu` },
  },
};

/** The cores that the entries of the package can start. */
const coresOf = { index: ["gpu", "cpu"], nn: ["gpu-nn", "cpu"], models: ["gpu-models", "cpu-models"] };

/** Returns the environment in which a core is built, linted and tested. */
export function coreEnv(name) {
  const { target, rustflags } = cores[name];
  const env = webEnv(target);
  const std = join(read(env.RUSTC ?? "rustc", ["--print", "sysroot"], { env }), "lib", "rustlib", "src", "rust");
  // Panic messages name source files. Their paths on this machine are replaced.
  const aliases = { [cargoHome]: "cargo", [root]: "warpweft", [std]: "rust" }; // The last match applies.
  const remap = Object.entries(aliases).map(([path, alias]) => `--remap-path-prefix=${path}=${alias}`);
  return { ...env, CARGO_ENCODED_RUSTFLAGS: [...rustflags, ...remap].join("\x1f") };
}

/**
 * Builds everything that changed: the whole package, or with `entry` only the files of this entry and of those that it
 * includes. A package that was built as a whole is always rebuilt as a whole.
 */
export async function build(entry) {
  await setup(["rust", "crates", "node", "wasm32", "wasmTools"]);
  const isWhole = entry === undefined || existsSync(join(dist, "index.js"));
  const names = isWhole ? Object.keys(cores) : coresOf[entry];
  const tools = ["package-lock.json", "www/tools/build.mjs", "www/tools/glue.mjs"];
  const rust = ["build.rs", "src", "shaders", "Cargo.toml", "Cargo.lock"];
  // In parallel, because much of the time is linking on one processor.
  await Promise.all(names.map((name) => {
    const compiler = read("rustc", ["--version"], { env: coreEnv(name) });
    const { usual } = cores[name];
    return step(`${name} core`, usual, [...rust, ...tools], compiler, `${name}.wasm`, () => buildCore(name));
  }));
  const glue = names.flatMap((name) => [`www/dist/${name}`, `www/dist/${name}.wasm`]);
  // All files that pages load are made from these.
  const script = ["www/src", "www/tsconfig.json", "www/tools/script.mjs", ...glue, ...tools];
  const [title, make] = isWhole ? ["JavaScript", buildScript] : [`JavaScript of ${entry}`, () => buildEntry(entry)];
  if (!(await step(title, 20, script, "", isWhole ? "index.js" : `${entry}.js`, make)) || !isWhole) return;
  const wasm = Object.keys(cores).map((name) => `${name}.wasm`);
  const made = [...wasm, "shared.js", "cpu.js", "index.js", "shared-nn.js", "gpu-nn.js", "nn.js", "models.js"];
  for (const file of made) say(`build: ${file}: ${sizes(join(dist, file))}`);
}

async function buildCore(name) {
  const { profile, features, optimise } = cores[name];
  const out = join(dist, name);
  rmSync(out, { recursive: true, force: true });
  const to = ["--target", "bundler", "--out-dir", out, "--out-name", "warpweft", "--no-pack", "--no-gitignore"];
  const cargo = ["--locked", "--no-default-features", "--features", features];
  const args = ["build", join(root, "src", "js", "core"), "--profile", profile, "--mode", "no-install", ...to, "--", ...cargo];
  await run(tool("wasm-pack"), args, { env: coreEnv(name), quiet: true });

  const [script, declared] = ["warpweft_bg.js", "warpweft.d.ts"].map((file) => join(out, file));
  writeFileSync(script, ownPointers(readFileSync(script, "utf8"), name.split("-")[0]));
  renameSync(declared, join(out, "classes.txt")); // Renamed so that TypeScript's compiler does not find it.
  // `load.ts` starts the core. The generated module for bundlers with WebAssembly support is not used.
  const unused = readdirSync(out).filter((file) => file === "warpweft.js" || file.endsWith(".d.ts"));
  for (const file of unused) rmSync(join(out, file));
  const compiled = join(out, "warpweft_bg.wasm");
  // The output is next to the module that loads it.
  const files = [compiled, "-o", join(dist, `${name}.wasm`)];
  await run(process.execPath, [nodeTool("binaryen", "wasm-opt"), ...files, optimise, "--strip-producers"]);
  rmSync(compiled);
}

const stamps = join(dist, ".built.json");

/** Runs `make`, unless `output` exists and was made from equal inputs. Returns whether it ran. */
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
  save(undefined); // An interrupted build must not count as done.
  await progress(`build: ${title}`, usual, make);
  save(stamp);
  return true;
}

/** Returns the files at or under a path of the repository, in sorted order. Returns none if the path does not exist. */
function filesUnder(path) {
  const full = join(root, path);
  if (!existsSync(full)) return [];
  if (statSync(full).isFile()) return [path];
  return readdirSync(full).sort().flatMap((name) => filesUnder(`${path}/${name}`));
}

/** Returns a file's size, raw and compressed. */
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
