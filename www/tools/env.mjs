// Where things are on this machine, and the environments that builds and tests run in.
//
// Nothing here installs anything (that is setup.mjs) and nothing is remembered: each function looks again.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { homedir, platform, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** What setup built for this checkout alone: wasm-pack, wasm-bindgen, perhaps a toolchain. Git ignores it. */
export const tools = join(root, ".tools");
/** A toolchain of its own for wasm32, unpacked by setup where rustup can not add the target. */
export const rustWeb = join(tools, "rust-web", "usr");
/** Wasm builds: apart from native ones, so that neither throws the other's work away. */
export const webTarget = join(root, "target", "web");

/** Where cargo keeps the sources of dependencies. */
export const cargoHome = process.env.CARGO_HOME ?? join(homedir(), ".cargo");

const onLinux = platform() === "linux";
const exe = platform() === "win32" ? ".exe" : "";

/** The path of a program that cargo installed into `.tools`. */
export const tool = (name) => join(tools, "bin", name + exe);

/** The version of a crate in Cargo.lock. */
export function lockedVersion(crate) {
  const lock = readFileSync(join(root, "Cargo.lock"), "utf8");
  const found = lock.match(new RegExp(`name = "${crate}"\\r?\\nversion = "([^"]+)"`));
  if (!found) throw new Error(`Cargo.lock must have ${crate}, got none`);
  return found[1];
}

/** Whether wasm builds use the toolchain in `.tools` and not the one on PATH. */
export const usesRustWeb = () => existsSync(join(rustWeb, "lib", "rustlib", "wasm32-unknown-unknown", "lib"));

/** The environment of every wasm build. `targetDir` keeps builds with other flags from undoing each other. */
export function webEnv(targetDir = webTarget) {
  const path = [join(tools, "bin"), dirname(process.execPath), process.env.PATH];
  const env = { CARGO_TARGET_DIR: targetDir };
  if (usesRustWeb()) Object.assign(env, rustWebEnv(rustWeb, path));
  return { ...process.env, ...env, PATH: path.join(delimiter) };
}

/** Points cargo at the toolchain unpacked under `usr`; `path` gets its programs in front. */
export function rustWebEnv(usr, path) {
  const bin = join(usr, "bin");
  path.unshift(bin);
  return {
    RUSTC: join(bin, "rustc"),
    RUSTDOC: join(bin, "rustdoc"),
    // Its libraries are not where the system's linker looks.
    LD_LIBRARY_PATH: [...libraryDirs(usr), process.env.LD_LIBRARY_PATH].filter(Boolean).join(delimiter),
  };
}

/** Debian's folders of shared libraries under `usr`: lib/x86_64-linux-gnu and the like. */
function libraryDirs(usr) {
  const lib = join(usr, "lib");
  return readdirSync(lib).filter((name) => name.includes("-linux-gnu")).map((name) => join(lib, name));
}

const icdFolders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];

/** The Vulkan drivers this Linux machine lists, as paths of their manifests. */
export function vulkanIcds() {
  return icdFolders.filter(existsSync).flatMap((dir) => readdirSync(dir).map((name) => join(dir, name)));
}

/** The manifest of lavapipe, Mesa's Vulkan on the CPU. */
export const lavapipe = () => vulkanIcds().find((path) => /lvp_icd[^/]*\.json$/.test(path));

/** Whether a GPU is here that a driver can drive: a device node, and a Vulkan driver for its maker. */
export function hasGpu() {
  if (!onLinux) return true; // Metal and DX12 come with the system.
  const icds = vulkanIcds();
  if (existsSync("/dev/nvidiactl") && icds.some((path) => path.includes("nvidia"))) return true;
  const nodes = existsSync("/dev/dri") ? readdirSync("/dev/dri") : [];
  return nodes.some((name) => name.startsWith("renderD")) && icds.some((path) => path !== lavapipe());
}

/** The environment of native runs. Without a GPU it names lavapipe, because other drivers are installed with it. */
export function nativeEnv() {
  const env = { ...process.env };
  // Without it Mesa's search for a screen writes an error per device, into the middle of test results.
  if (onLinux) env.XDG_RUNTIME_DIR ||= tmpdir();
  const chosen = env.VK_DRIVER_FILES || env.VK_ICD_FILENAMES;
  if (onLinux && !chosen && !hasGpu() && lavapipe()) {
    env.VK_DRIVER_FILES = lavapipe();
    env.VK_ICD_FILENAMES = lavapipe(); // The name that loaders before 1.3.207 know.
  }
  return env;
}

/** The same for tests. Each of thousands of kernels runs once: lavapipe takes less time if it does not optimize them. */
export function nativeTestEnv() {
  return { GALLIVM_PERF: "nopt", ...nativeEnv() };
}

/** A program's path: by one of its names on Linux, elsewhere where programs usually are; undefined where there is none. */
function installed({ linux, darwin, win32 }) {
  if (onLinux) return linux.map(onPath).find(Boolean);
  const folders = {
    darwin: ["/Applications", join(homedir(), "Applications")],
    win32: [process.env.PROGRAMFILES, process.env["PROGRAMFILES(X86)"], process.env.LOCALAPPDATA].filter(Boolean),
  };
  const programs = { darwin, win32 }[platform()];
  return programs.flatMap((program) => folders[platform()].map((dir) => join(dir, program))).find(existsSync);
}

/** The path of Chromium or Chrome: CHROME_PATH, or where it usually is; undefined where there is none. */
export function chromium() {
  if (process.env.CHROME_PATH) return process.env.CHROME_PATH;
  return installed({
    linux: ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
    darwin: ["Google Chrome.app/Contents/MacOS/Google Chrome", "Chromium.app/Contents/MacOS/Chromium"],
    win32: ["Google/Chrome/Application/chrome.exe", "Chromium/Application/chrome.exe"],
  });
}

/** The path of chromedriver: CHROMEDRIVER, or the one on PATH; undefined where there is none. */
export const chromedriver = () => process.env.CHROMEDRIVER || onPath("chromedriver");

/** The flags that give a headless Chromium a WebGPU adapter: the GPU's, or SwiftShader's on the CPU. */
export function chromiumArgs() {
  const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
  const args = ["--headless", "--enable-unsafe-webgpu", ...quiet];
  // WebGPU on Linux needs Vulkan asked for; containers have no user namespaces for the sandbox.
  if (onLinux) args.push("--no-sandbox", "--enable-features=Vulkan");
  if (!hasGpu()) args.push("--use-webgpu-adapter=swiftshader");
  return args;
}

/** The path of Firefox: FIREFOX_PATH, or where it usually is; undefined where there is none. */
export function firefox() {
  if (process.env.FIREFOX_PATH) return process.env.FIREFOX_PATH;
  return installed({
    linux: ["firefox-esr", "firefox"],
    darwin: ["Firefox.app/Contents/MacOS/firefox"],
    win32: ["Mozilla Firefox/firefox.exe"],
  });
}

/** The path of geckodriver: GECKODRIVER, or the one that setup built. */
export const geckodriver = () => process.env.GECKODRIVER || tool("geckodriver");

/** What geckodriver starts a headless Firefox with WebGPU by: on the GPU, or on lavapipe. */
export function firefoxOptions() {
  // Linux has WebGPU behind these preferences.
  const webgpu = { "dom.webgpu.enabled": true, "gfx.webgpu.ignore-blocklist": true };
  const quiet = { "app.update.disabledForTesting": true, "datareporting.policy.dataSubmissionEnabled": false };
  const collector = { "dom.testing.testutils.enabled": true }; // TestUtils.gc()
  const { VK_DRIVER_FILES, VK_ICD_FILENAMES } = nativeEnv();
  const drivers = Object.entries({ VK_DRIVER_FILES, VK_ICD_FILENAMES }).filter(([, files]) => files);
  const prefs = { ...webgpu, ...quiet, ...collector };
  return { binary: firefox(), args: ["-headless"], prefs, env: Object.fromEntries(drivers) };
}

/** The first program called `name` on PATH, or undefined. */
export function onPath(name) {
  const dirs = (process.env.PATH ?? "").split(delimiter);
  return dirs.map((dir) => join(dir, name + exe)).find(existsSync);
}

// npm is a script on Windows, and only a shell starts those.
const needsShell = (cmd) => platform() === "win32" && cmd === "npm";

/** What a program prints, trimmed; undefined when it is missing, fails, or takes more than `timeout` ms. */
export function read(cmd, args, opts = {}) {
  const done = spawnSync(cmd, args, { encoding: "utf8", cwd: root, shell: needsShell(cmd), ...opts });
  return done.status === 0 ? done.stdout.trim() : undefined;
}

/**
 * Runs a program to its end and gives what it printed; throws when it fails. Its output also goes to ours,
 * or with `quiet` only into the error.
 */
export async function run(cmd, args, { quiet = false, ...opts } = {}) {
  const shown = [cmd, ...args].join(" ").replaceAll(root + "/", "");
  const stdio = ["ignore", "pipe", "pipe"];
  const child = spawn(cmd, args, { cwd: root, shell: needsShell(cmd), stdio, ...opts });
  let output = "";
  const take = (to) => (data) => {
    output += data;
    if (!quiet) to.write(data);
  };
  child.stdout.on("data", take(process.stdout));
  child.stderr.on("data", take(process.stderr));
  const how = await new Promise((resolve, reject) => {
    child.on("error", (error) => reject(new Error(`cannot start ${shown}: ${error.message}`)));
    child.on("close", (code, signal) => {
      if (signal) resolve(`was ended by ${signal}`);
      else resolve(code === 0 ? "" : `exited with ${code}`);
    });
  });
  if (!how) return output;
  throw Object.assign(new Error(`${shown} ${how}${quiet ? `\n${output.slice(-4000)}` : ""}`), { output });
}
