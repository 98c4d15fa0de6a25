// The API reports: docs/api/rust.txt has the public items of the crates, and docs/api/javascript.d.ts has the declarations of
// the npm package. A change of what users see is therefore a change of a file, which a review notices.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { platform } from "node:os";
import { dirname, join } from "node:path";
import { listDeclarations } from "./declarations.mjs";
import { nativeEnv, read, root, run } from "./env.mjs";

const command = "UPDATE_EXPECT=1 npm run check -- --only API";
const isUpdate = process.env.UPDATE_EXPECT === "1";
/** The most lines of a printed difference. */
const MAX_DIFF_LINES = 200;

/** The error of a check that cannot run on this machine. */
export class Skipped extends Error {}

/** Compares the declarations in www/dist with their report. */
export async function checkJavaScriptApi() {
  const title = `// The public declarations of the npm package, without comments. \`${command}\` rewrites this file.`;
  compare("javascript.d.ts", `${title}\n\n${await listDeclarations()}`);
}

/**
 * Compares the public items of the crates with their report. The JSON and the paths of the standard library depend on the Rust
 * release. The check is therefore skipped, and in CI fails, if another release wrote the report.
 */
export async function checkRustApi() {
  const version = read("rustc", ["--version"]) ?? "no rustc";
  const release = /^rustc (\d+\.\d+)\.\d+ /.exec(version)?.[1]; // Not that of a beta or nightly.
  if (isUpdate && !release) throw new Error(`a stable Rust release must write docs/api/rust.txt, got ${version}`);
  const old = reportOf("rust.txt");
  const made = /by Rust (\d+\.\d+)\./.exec(old)?.[1];
  if (old && !isUpdate && release !== made) {
    const reason = `docs/api/rust.txt was written by Rust ${made}, but this is ${version}`;
    if (!process.env.CI) throw new Skipped(`${reason}. CI compares it.`);
    throw new Error(`${reason}. Update the report: ${command}`);
  }
  const title = [
    `# The public items of warpweft and warpweft-native, written by Rust ${release}.`,
    `# With all features but cli, cuda, mpi and unstable. \`${command}\` rewrites this file.`,
  ];
  compare("rust.txt", `${title.join("\n")}\n\n${await listRustItems(version)}`);
}

/** Returns the public items of the crates, one per line. */
async function listRustItems(version) {
  const { packages, target_directory: target } = JSON.parse(read("cargo", ["metadata", "--no-deps", "--format-version", "1"]));
  const manifest = join(root, "www", "tools", "api", "Cargo.toml");
  const folder = join(target, "api");
  await run("cargo", ["build", "--locked", "--manifest-path", manifest, "--target-dir", folder], { env: nativeEnv() });
  const program = join(folder, "debug", platform() === "win32" ? "warpweft-api.exe" : "warpweft-api");
  const env = {
    ...nativeEnv(),
    RUSTDOC: program,
    WARPWEFT_RUSTDOC: process.env.RUSTDOC ?? "rustdoc",
    RUSTDOCFLAGS: "-Z unstable-options --output-format json",
    // Only the JSON is written to another folder, because cargo would replace the documentation in `target/doc`.
    CARGO_BUILD_BUILD_DIR: target,
    CARGO_TARGET_DIR: folder,
  };
  // The features of the native crate are the user's features of the library. Those without promises for the next release, and
  // what needs them, are not reported. Neither is MPI, which is not installed everywhere and adds no public items.
  const features = Object.keys(packages.find(({ name }) => name === "warpweft-native").features)
    .filter((name) => !["cli", "cuda", "default", "mpi", "unstable"].includes(name));
  const named = features.map((name) => `warpweft-native/${name}`).join(",");
  const crates = ["-p", "warpweft", "-p", "warpweft-native"];
  await run("cargo", ["doc", ...crates, "--no-deps", "--lib", "--no-default-features", "--features", named], { env });
  const files = ["warpweft", "warpweft_native"].map((name) => join(folder, "doc", `${name}.json`));
  return run(program, files, { quiet: true }).catch((error) => {
    const remedy = "If public-api cannot read it, take another version of public-api in www/tools/api/Cargo.toml.";
    throw new Error(`${error.message}\nThe JSON is from ${version}. ${remedy}`);
  });
}

/** Returns a report of docs/api. Returns an empty text if it does not exist. */
function reportOf(name) {
  const file = join(root, "docs", "api", name);
  return existsSync(file) ? readFileSync(file, "utf8").replaceAll("\r\n", "\n") : "";
}

/** Throws with the difference if a report is not `text`, or writes the report if `UPDATE_EXPECT` is 1. */
function compare(name, text) {
  const file = join(root, "docs", "api", name);
  if (reportOf(name) === text) return;
  if (isUpdate) {
    write(file, text);
    console.log(`check: wrote docs/api/${name}`);
    return;
  }
  const current = join(root, "target", "api", name);
  write(current, text);
  if (!existsSync(file)) throw new Error(`docs/api/${name} does not exist. Write it: ${command}`);
  // `--no-index` compares two files, also outside of a repository.
  const { stdout } = spawnSync("git", ["diff", "--no-index", "--unified=1", "--", file, current], { encoding: "utf8" });
  const lines = (stdout ?? "").split("\n").filter((line) => !/^(diff --git|index|---|\+\+\+) /.test(line));
  const cut = lines.length > MAX_DIFF_LINES ? [`... and ${lines.length - MAX_DIFF_LINES} more lines`] : [];
  const shown = [...lines.slice(0, MAX_DIFF_LINES), ...cut].join("\n").trim();
  const message = `the public API must be that of docs/api/${name}, got target/api/${name}`;
  throw new Error(`${message}\n${shown}\nIf users may see this change, update the report: ${command}`);
}

function write(file, text) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
