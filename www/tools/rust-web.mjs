// The wasm32 target: from rustup, or if its servers are unreachable a separate toolchain from Debian's packages.
//
// Debian packages the newest Rust that Firefox and Chromium need as `rustc-web`, with its sources but without std for wasm32.
// It is unpacked under `.tools`, and std is built once. Only wasm builds use it (`webEnv`).

import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, renameSync } from "node:fs";
import { rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { aptUnpack, haveApt } from "./apt.mjs";
import { cargoHome, onPath, read, root, run, rustWeb, rustWebEnv, tools } from "./env.mjs";
import { usesRustWeb, webEnv, webTarget } from "./env.mjs";

const target = "wasm32-unknown-unknown";

/** Whether wasm builds have a std to link. */
export function haveWasm32() {
  const lib = read("rustc", ["--print", "target-libdir", "--target", target], { env: webEnv() });
  return Boolean(lib) && existsSync(lib) && readdirSync(lib).some((name) => name.startsWith("libstd-"));
}

/** Gets the target in the first way that works, and reports progress to `say`. Throws if none works. */
export async function addWasm32(say) {
  if (onPath("rustup") && !usesRustWeb()) {
    say(`rustup target add ${target}`);
    // With a timeout, because some networks drop packets silently.
    read("rustup", ["target", "add", target], { timeout: 90_000 });
    if (haveWasm32()) return;
  }
  if (!haveApt()) throw new Error(`rustup could not add ${target}`);
  say("rustup could not add it: unpacking Debian's rustc-web (150 MB) into .tools/rust-web");
  const home = dirname(rustWeb);
  const making = `${home}.tmp`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { recursive: true });
  await aptUnpack(["rustc-web", "rust-web-src", "rust-web-clippy", "rustfmt-web"], /rust|llvm/, making);
  refuseOld(join(making, "usr"));
  say("building std for wasm32 (about a minute)");
  linkLinker(join(making, "usr"));
  await buildStd(making);
  // Cargo cannot distinguish two builds of std with the same version, so results with the old one are deleted.
  for (const old of [webTarget, `${webTarget}-cpu`, `${webTarget}-lint`]) rmSync(old, { recursive: true, force: true });
  // Renamed last, so that a folder with this name is always complete.
  rmSync(home, { recursive: true, force: true });
  renameSync(making, home);
}

/** Links a wasm linker into the unpacked toolchain: the one of rustup's toolchain. */
function linkLinker(usr) {
  const host = read("rustc", ["-vV"]).match(/^host: (.*)$/m)[1];
  const bin = join("lib", "rustlib", host, "bin");
  const linker = join(read("rustc", ["--print", "sysroot"]), bin, "rust-lld");
  if (!existsSync(linker)) throw new Error("the Rust toolchain on PATH has no rust-lld; install one with rustup");
  mkdirSync(join(usr, bin), { recursive: true });
  symlinkSync(linker, join(usr, bin, "rust-lld"));
}

/** Throws if the unpacked compiler is older than the project's minimum Rust version. */
function refuseOld(usr) {
  const env = { ...process.env, ...rustWebEnv(usr, [process.env.PATH]) };
  const here = read(env.RUSTC, ["--version"], { env })?.match(/\d+\.\d+/)?.[0] ?? "0";
  const wanted = readFileSync(join(root, "Cargo.toml"), "utf8").match(/^rust-version = "(.*)"$/m)[1];
  const number = (version) => version.split(".").reduce((sum, part) => 1000 * sum + Number(part), 0);
  if (number(here) >= number(wanted)) return;
  throw new Error(`Debian's rustc-web must be ${wanted} or later, got ${here}; add bookworm-security to apt's sources`);
}

/** Builds std from the unpacked sources, and puts it where the unpacked rustc looks for it. */
async function buildStd(home) {
  const usr = join(home, "usr");
  const empty = join(home, "std");
  mkdirSync(join(empty, "src"), { recursive: true });
  writeFileSync(join(empty, "Cargo.toml"), '[package]\nname = "nothing"\nedition = "2024"\n\n[workspace]\n');
  writeFileSync(join(empty, "src", "lib.rs"), "#![no_std]\n");

  const sources = join(usr, "lib", "rustlib", "src", "rust");
  const path = [process.env.PATH];
  const env = {
    ...process.env,
    ...rustWebEnv(usr, path),
    CARGO_TARGET_DIR: join(empty, "target"),
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS: "1",
    // With bitcode for LTO, and without paths of this machine in panic messages.
    CARGO_ENCODED_RUSTFLAGS: [
      "-Cembed-bitcode=yes",
      `--remap-path-prefix=${sources}=rust`,
      `--remap-path-prefix=${realpathSync(sources)}=rust`,
      `--remap-path-prefix=${cargoHome}=cargo`,
    ].join("\x1f"),
    RUSTC_BOOTSTRAP: "1", // -Zbuild-std needs a nightly compiler or this variable.
  };
  const args = ["build", "--release", "-Zbuild-std=std,panic_abort,panic_unwind,test", "--target", target];
  await run("cargo", args, { cwd: empty, env, quiet: true });

  const built = join(empty, "target", target, "release", "deps");
  const lib = join(usr, "lib", "rustlib", target, "lib");
  mkdirSync(lib, { recursive: true });
  for (const name of readdirSync(built).filter((file) => file.endsWith(".rlib") && !file.startsWith("libnothing"))) {
    copyFileSync(join(built, name), join(lib, name));
  }
  for (const done of [empty, join(usr, "share")]) rmSync(done, { recursive: true, force: true });
}

/** Returns the path of a program of the unpacked toolchain (clippy, rustfmt), or undefined. */
export function rustWebTool(name) {
  const path = join(rustWeb, "bin", name);
  return existsSync(path) ? path : undefined;
}
