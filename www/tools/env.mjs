// Locations on this machine, and the environments of builds and tests.
//
// Nothing here installs anything (setup.mjs does), and nothing is cached. Each function looks again.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { homedir, platform, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the repository. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/**
 * The folder of tools that setup built for this checkout: wasm-pack, wasm-bindgen, and possibly a toolchain. Git ignores it.
 */
export const tools = join(root, ".tools");
/** A separate toolchain for wasm32. Setup unpacks it if rustup cannot add the target. */
export const rustWeb = join(tools, "rust-web", "usr");
/** The target folder of wasm builds. It is separate from native builds, because they would invalidate each other. */
export const webTarget = join(root, "target", "web");
/** The output folder of the npm package's code. */
export const dist = join(root, "www", "dist");
/** The folder where cargo stores the sources of dependencies. */
export const cargoHome = process.env.CARGO_HOME ?? join(homedir(), ".cargo");

const onLinux = platform() === "linux";
const exe = platform() === "win32" ? ".exe" : "";

/** Returns the path of a program that cargo installed into `.tools`. */
export const tool = (name) => join(tools, "bin", name + exe);

/** Returns the script behind a program of an npm package. */
export function nodeTool(pack, name) {
  const home = join(root, "node_modules", pack);
  const { bin } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  return join(home, typeof bin === "string" ? bin : bin[name]);
}

/** Returns the version of a crate in Cargo.lock. */
export function lockedVersion(crate) {
  const lock = readFileSync(join(root, "Cargo.lock"), "utf8");
  const found = lock.match(new RegExp(`name = "${crate}"\\r?\\nversion = "([^"]+)"`));
  if (!found) throw new Error(`Cargo.lock must have ${crate}, got none`);
  return found[1];
}

/** Whether wasm builds use the toolchain in `.tools` instead of the one on PATH. */
export const usesRustWeb = () => existsSync(join(rustWeb, "lib", "rustlib", "wasm32-unknown-unknown", "lib"));

/**
 * Returns the environment of wasm builds. Builds with other flags have another `targetDir`, so that they do not invalidate each
 * other.
 */
export function webEnv(targetDir = webTarget) {
  const path = [join(tools, "bin"), dirname(process.execPath), process.env.PATH];
  const env = { CARGO_TARGET_DIR: targetDir };
  if (usesRustWeb()) Object.assign(env, rustWebEnv(rustWeb, path));
  return { ...process.env, ...env, PATH: path.join(delimiter) };
}

/** Returns variables that make cargo use the toolchain unpacked under `usr`. Puts its programs first in `path`. */
export function rustWebEnv(usr, path) {
  const bin = join(usr, "bin");
  path.unshift(bin);
  return {
    RUSTC: join(bin, "rustc"),
    RUSTDOC: join(bin, "rustdoc"),
    // The system's linker does not find the toolchain's libraries otherwise.
    LD_LIBRARY_PATH: [...libraryDirs(usr), process.env.LD_LIBRARY_PATH].filter(Boolean).join(delimiter),
  };
}

/** Returns Debian's folders of shared libraries under `usr`, such as lib/x86_64-linux-gnu. */
function libraryDirs(usr) {
  const lib = join(usr, "lib");
  return readdirSync(lib).filter((name) => name.includes("-linux-gnu")).map((name) => join(lib, name));
}

const icdFolders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];

/** Returns the Vulkan drivers of this Linux machine, as paths of their manifests. */
export function vulkanIcds() {
  return icdFolders.filter(existsSync).flatMap((dir) => readdirSync(dir).map((name) => join(dir, name)));
}

/** Returns the manifest of lavapipe, Mesa's Vulkan driver for the CPU. */
export const lavapipe = () => vulkanIcds().find((path) => /lvp_icd[^/]*\.json$/.test(path));

/** Whether there is a usable GPU: a device node, and a Vulkan driver of its vendor. */
export function hasGpu() {
  if (!onLinux) return true; // Metal and DX12 come with the system.
  const icds = vulkanIcds();
  if (existsSync("/dev/nvidiactl") && icds.some((path) => path.includes("nvidia"))) return true;
  const nodes = existsSync("/dev/dri") ? readdirSync("/dev/dri") : [];
  return nodes.some((name) => name.startsWith("renderD")) && icds.some((path) => path !== lavapipe());
}

/** Whether programs can be built with MPI, by libclang, and started as ranks. */
export const haveMpi = () => Boolean(onPath("mpicc") && onPath("mpirun") && onPath("ip")) && haveLibclang();

/** Whether there is a library that bindgen loads. Debian has it in a folder of LLVM. */
function haveLibclang() {
  if (process.env.LIBCLANG_PATH) return true;
  const folders = ["/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
  const llvm = existsSync("/usr/lib") ? readdirSync("/usr/lib").filter((name) => name.startsWith("llvm")) : [];
  const all = [...folders, ...llvm.map((name) => `/usr/lib/${name}/lib`)].filter(existsSync);
  return all.some((folder) => readdirSync(folder).some((name) => /^libclang([-.][\d.]+)?\.so/.test(name)));
}

/**
 * Returns the arguments of cargo that select features for commands on the whole workspace. All such commands have the same, so
 * that nothing is compiled again. MPI is included if it is installed.
 */
export const features = () => (onLinux && haveMpi() ? ["--features", "warpweft-native/mpi"] : []);

/** Returns the environment of native runs. Without a GPU it selects lavapipe, because other drivers are installed with it. */
export function nativeEnv() {
  const env = { ...process.env };
  // Without this variable, Mesa prints an error per device into the test results when it looks for a screen.
  if (onLinux) env.XDG_RUNTIME_DIR ||= tmpdir();
  const chosen = env.VK_DRIVER_FILES || env.VK_ICD_FILENAMES;
  if (onLinux && !chosen && !hasGpu() && lavapipe()) {
    env.VK_DRIVER_FILES = lavapipe();
    env.VK_ICD_FILENAMES = lavapipe(); // The name in loaders before 1.3.207.
  }
  return env;
}

/**
 * Returns the environment of native tests. Each of thousands of kernels runs once, so lavapipe is faster without optimizing
 * them.
 */
export function nativeTestEnv() {
  return { GALLIVM_PERF: "nopt", ...nativeEnv() };
}

/**
 * Returns a program's path: on Linux by one of its names on PATH, elsewhere in the usual folders. Undefined if it is not found.
 */
function installed({ linux, darwin, win32 }) {
  if (onLinux) return linux.map(onPath).find(Boolean);
  const folders = {
    darwin: ["/Applications", join(homedir(), "Applications")],
    win32: [process.env.PROGRAMFILES, process.env["PROGRAMFILES(X86)"], process.env.LOCALAPPDATA].filter(Boolean),
  };
  const programs = { darwin, win32 }[platform()];
  return programs.flatMap((program) => folders[platform()].map((dir) => join(dir, program))).find(existsSync);
}

/** Returns the path of Chromium or Chrome: CHROME_PATH, or its usual location. Undefined if it is not found. */
export function chromium() {
  if (process.env.CHROME_PATH) return process.env.CHROME_PATH;
  return installed({
    linux: ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"],
    darwin: ["Google Chrome.app/Contents/MacOS/Google Chrome", "Chromium.app/Contents/MacOS/Chromium"],
    win32: ["Google/Chrome/Application/chrome.exe", "Chromium/Application/chrome.exe"],
  });
}

/** Returns the path of chromedriver: CHROMEDRIVER, or the one on PATH. Undefined if it is not found. */
export const chromedriver = () => process.env.CHROMEDRIVER || onPath("chromedriver");

/** Returns the flags for a headless Chromium with a WebGPU adapter: the GPU, or SwiftShader on the CPU. */
export function chromiumArgs() {
  const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
  const args = ["--headless", "--enable-unsafe-webgpu", ...quiet];
  // On Linux, WebGPU needs the Vulkan feature. Containers have no user namespaces for the sandbox.
  if (onLinux) args.push("--no-sandbox", "--enable-features=Vulkan");
  if (!hasGpu()) args.push("--use-webgpu-adapter=swiftshader");
  return args;
}

/** Returns the path of Firefox: FIREFOX_PATH, or its usual location. Undefined if it is not found. */
export function firefox() {
  if (process.env.FIREFOX_PATH) return process.env.FIREFOX_PATH;
  return installed({
    linux: ["firefox-esr", "firefox"],
    darwin: ["Firefox.app/Contents/MacOS/firefox"],
    win32: ["Mozilla Firefox/firefox.exe"],
  });
}

/** Returns the path of geckodriver: GECKODRIVER, or the one that setup built. */
export const geckodriver = () => process.env.GECKODRIVER || tool("geckodriver");

/** Returns geckodriver's options for a headless Firefox with WebGPU, on the GPU or on lavapipe. */
export function firefoxOptions() {
  // On Linux, WebGPU needs these preferences.
  const webgpu = { "dom.webgpu.enabled": true, "gfx.webgpu.ignore-blocklist": true };
  const quiet = { "app.update.disabledForTesting": true, "datareporting.policy.dataSubmissionEnabled": false };
  const collector = { "dom.testing.testutils.enabled": true }; // TestUtils.gc()
  const { VK_DRIVER_FILES, VK_ICD_FILENAMES } = nativeEnv();
  const drivers = Object.entries({ VK_DRIVER_FILES, VK_ICD_FILENAMES }).filter(([, files]) => files);
  const prefs = { ...webgpu, ...quiet, ...collector };
  return { binary: firefox(), args: ["-headless"], prefs, env: Object.fromEntries(drivers) };
}

/** Returns the first program called `name` on PATH, or undefined. */
export function onPath(name) {
  const dirs = (process.env.PATH ?? "").split(delimiter);
  return dirs.map((dir) => join(dir, name + exe)).find(existsSync);
}

// npm is a script on Windows, and only a shell can start scripts.
const needsShell = (cmd) => platform() === "win32" && cmd === "npm";

/** Returns the trimmed output of a program. Undefined if it is missing, fails, or takes more than `timeout` ms. */
export function read(cmd, args, opts = {}) {
  const done = spawnSync(cmd, args, { encoding: "utf8", cwd: root, shell: needsShell(cmd), ...opts });
  return done.status === 0 ? done.stdout.trim() : undefined;
}

/**
 * Runs a program and returns its output. Throws if it fails. The output is also printed, or with `quiet` only included in the
 * error.
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
