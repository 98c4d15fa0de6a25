// `npm run check`: runs all static checks, and the repository's own rules.
//
// `npm run check -- --only API` runs the checks whose names begin with "API".

import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { checkJavaScriptApi, checkRustApi, Skipped } from "./api.mjs";
import { build, coreEnv } from "./build.mjs";
import { features, nativeEnv, read, root, run, usesRustWeb, webEnv, webTarget } from "./env.mjs";
import { rustWebTool } from "./rust-web.mjs";
import { setup } from "./setup.mjs";
import { tsc, typecheck } from "./typescript.mjs";

const strict = ["--", "-D", "warnings"];
// The crate of the WebAssembly modules. clippy also checks the library, which is a member of the workspace.
const wasm = ["-p", "warpweft-core", "--target", "wasm32-unknown-unknown", "--no-default-features", "--features"];

/** The checks in order. Each throws when it finds a problem, or `Skipped` if it cannot run here. */
const checks = {
  format: () => lint("fmt", ["--all", "--check"], nativeEnv()),
  "clippy, native": () => lint("clippy", ["--workspace", "--all-targets", ...features(), ...strict], nativeEnv()),
  "clippy, GPU core": () => lint("clippy", [...wasm, "gpu,js,wgpu-interop", ...strict], coreEnv("gpu")),
  "clippy, GPU core with models": () => lint("clippy", [...wasm, "gpu,js-models,wgpu-interop", ...strict], coreEnv("gpu")),
  // Its SIMD code is compiled only with its own flags.
  "clippy, CPU core with models": () => lint("clippy", [...wasm, "cpu,js-models", ...strict], coreEnv("cpu-models")),
  rustdoc: () => {
    const env = { ...nativeEnv(), RUSTDOCFLAGS: "-D warnings" };
    // Only libraries, because the documentation of the program would replace that of the library with the same name.
    return run("cargo", ["doc", "--workspace", ...features(), "--no-deps", "--lib"], { env });
  },
  "API of Rust": checkRustApi,
  // The published crates must compile from their packages, which finds missing files. Without the backends, because their
  // dependencies would be compiled again.
  "cargo package": async () => {
    const pack = (names, args) => {
      const crates = names.flatMap((name) => ["-p", name]);
      // In a separate folder, because cargo would use this library in the tests. It is never run, so it is not optimized.
      const folder = ["--target-dir", join(root, "target", "package-check")];
      const env = { ...nativeEnv(), CARGO_PROFILE_DEV_OPT_LEVEL: "0", CARGO_PROFILE_DEV_DEBUG: "false" };
      return run("cargo", ["package", ...crates, ...args, ...folder, "--locked", "--allow-dirty"], { env });
    };
    await pack(["warpweft-macros", "warpweft", "warpweft-native"], ["--no-verify"]);
    await pack(["warpweft-macros", "warpweft"], ["--no-default-features"]);
  },
  // The code for Metal and DX12 is compiled only for these systems.
  "macOS and Windows": async () => {
    const targets = ["aarch64-apple-darwin", "x86_64-pc-windows-msvc"];
    const { status, stderr } = spawnSync("rustup", ["target", "add", ...targets], { encoding: "utf8", timeout: 90_000 });
    if (status !== 0) throw new Skipped(`rustup cannot add ${targets.join(" and ")}: ${stderr ?? "there is no rustup"}`);
    const chosen = targets.flatMap((target) => ["--target", target]);
    // Without the command line and language models, which have no code for one system, and many dependencies.
    const features = ["--no-default-features", "--features", "cuda"];
    await run("cargo", ["check", "-p", "warpweft-native", ...features, ...chosen], { env: nativeEnv() });
  },
  // After a build, because the TypeScript imports files that wasm-pack generates.
  TypeScript: async () => {
    await build();
    await tsc(["--noEmit"]);
    // The demo's JavaScript, with the types in its comments.
    await tsc(["--noEmit"], join("www", "demo"));
    // With the strictest settings that a page may have, with and without the library that declares `Disposable`.
    await typecheck("usage.ts", "es2022,dom");
    await typecheck("models.ts", "es2022,dom");
    await typecheck("disposing.ts", "es2022,esnext.disposable,dom");
    // Without the platform's types. `integrations.mjs` compiles with only Node's types.
    await typecheck("disposing.ts", "es2022,esnext.disposable");
  },
  "API of JavaScript": async () => {
    await build();
    await checkJavaScriptApi();
  },
  // With all crates, as for the tests, so that nothing is compiled again.
  tidy: () => run("cargo", ["test", "--workspace", ...features(), "--test", "native", "tidy"], { env: nativeEnv() }),
};

/**
 * Runs `cargo fmt` or `cargo clippy`. Native builds use rustup's program, or the one in `.tools` if rustup has none. Wasm
 * builds use the program of their compiler.
 */
async function lint(command, args, env) {
  const own = rustWebTool(`cargo-${command}`);
  const forWasm = args.includes("wasm32-unknown-unknown");
  const usesOwn = forWasm ? usesRustWeb() : !read(`cargo-${command}`, ["--version"]);
  if (!usesOwn) return run("cargo", [command, ...args], { env });
  if (!own) throw new Error(`cargo ${command} is not installed; run: rustup component add clippy rustfmt`);
  const rustfmt = join(dirname(own), "rustfmt");
  await run(own, [command, ...args], { env: { ...(forWasm ? env : webEnv(`${webTarget}-lint`)), RUSTFMT: rustfmt } });
}

/** Runs the checks whose names begin with `only`, and returns how many passed, failed and were skipped. */
export async function check(only = "") {
  const chosen = Object.entries(checks).filter(([name]) => name.startsWith(only));
  if (!chosen.length) throw new Error(`check: --only must begin one of ${Object.keys(checks).join("; ")}, got ${only}`);
  await setup(["rust", "node", "wasm32", "wasmTools", "lints"]);
  const count = { passed: 0, failed: 0, skipped: 0 };
  for (const [name, look] of chosen) {
    console.log(`check: ${name}`);
    const start = Date.now();
    try {
      await look();
      count.passed += 1;
      console.log(`check: ${name}: passed, ${Math.round((Date.now() - start) / 1000)} s`);
    } catch (error) {
      const isSkipped = error instanceof Skipped;
      count[isSkipped ? "skipped" : "failed"] += 1;
      console.log(`check: ${name}: ${isSkipped ? "SKIPPED" : "FAILED"}: ${error.message}`);
    }
  }
  return count;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { only } = parseArgs({ options: { only: { type: "string" } } }).values;
  const { passed, failed, skipped } = await check(only).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
  console.log(`${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`);
  process.exit(failed ? 1 : 0);
}
