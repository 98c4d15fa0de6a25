// `npm run setup`: gets what building and testing need and what is not here yet.
//
// `-- --only native` gets what the Rust library is tested with (no browser, no node packages), and `-- --only browser`
// what the npm package is built and tested with (no Vulkan); the other commands get what they need themselves.
//
// Each step looks first and does nothing when its thing is there. What it installs appears whole or not at all, so a
// run that was stopped can simply be started again. Only Debian packages go into the system; the rest stays in
// node_modules and .tools.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { platform } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { aptInstall, mayInstall } from "./apt.mjs";
import { chromedriver, chromium, firefox, geckodriver, hasGpu, lavapipe, lockedVersion } from "./env.mjs";
import { onPath, read, root, run, tool, tools } from "./env.mjs";
import { getModels, haveModels, havePip } from "./models.mjs";
import { say as print, step } from "./progress.mjs";
import { addWasm32, haveWasm32, rustWebTool } from "./rust-web.mjs";

const wasmPackVersion = "0.15.1";
const geckodriverVersion = "0.37.1";
/** The oldest Firefox that was seen to compute by WebGPU on Linux. */
const firefoxVersion = 153;

/**
 * In order. `ready` looks, `get` gets, and `hand` says how a person gets it where we cannot. `usual` is about how many seconds
 * getting it takes.
 */
const steps = {
  rust: {
    title: "Rust",
    usual: 1,
    ready: () => onPath("cargo") && onPath("rustc") && (platform() === "win32" || onPath("cc")),
    get: () => {
      throw new Error("cargo, rustc or a C compiler is not on PATH");
    },
    hand: {
      linux: ["apt-get install curl gcc libc6-dev, then install rustup as www.rust-lang.org/tools/install says"],
      darwin: ["xcode-select --install", "brew install rustup && rustup default stable"],
      win32: ["winget install Microsoft.VisualStudio.2022.BuildTools", "winget install Rustlang.Rustup"],
    },
  },
  node: {
    title: "node packages",
    usual: 15,
    ready: () => existsSync(nodeStamp) && readFileSync(nodeStamp, "utf8") === nodeWants(),
    get: async (say) => {
      say("npm ci");
      await run("npm", ["ci", "--include=dev", "--no-audit", "--no-fund"], { quiet: true });
      writeFileSync(nodeStamp, nodeWants()); // npm ci starts by removing the folder: a stamp means a whole one.
    },
    hand: { any: ["npm ci"] },
  },
  crates: {
    title: "sources of Rust crates",
    usual: 20,
    ready: () => read("cargo", ["fetch", "--locked", "--offline"]) !== undefined,
    get: () => run("cargo", ["fetch", "--locked"], { quiet: true }),
    hand: { any: ["cargo fetch --locked"] },
  },
  wasm32: {
    title: "wasm32 target",
    usual: 10,
    ready: haveWasm32,
    get: addWasm32,
    hand: { any: ["rustup target add wasm32-unknown-unknown"] },
  },
  wasmTools: {
    title: "wasm-pack, wasm-bindgen",
    usual: 150,
    ready: () => wasmTools().every(({ name, version }) => read(tool(name), ["--version"])?.endsWith(` ${version}`)),
    get: async (say) => {
      for (const spec of new Set(wasmTools().map(({ crate, version }) => `${crate}@${version}`))) {
        say(`cargo install ${spec} into .tools (minutes)`);
        await cargoInstall(spec, "build-wasm");
      }
      rmSync(join(tools, "build-wasm"), { recursive: true, force: true });
    },
    hand: { any: ["see the error above; then npm run setup again"] },
  },
  lints: {
    title: "clippy, rustfmt",
    usual: 15,
    ready: () => ["cargo-clippy", "cargo-fmt"].every((name) => read(name, ["--version"]) || rustWebTool(name)),
    get: (say) => {
      say("rustup component add clippy rustfmt");
      read("rustup", ["component", "add", "clippy", "rustfmt"], { timeout: 90_000 });
      if (!steps.lints.ready()) throw new Error("rustup could not add clippy and rustfmt");
    },
    hand: { any: ["rustup component add clippy rustfmt"] },
  },
  chromium: {
    title: "Chromium, chromedriver",
    usual: 60,
    ready: () => chromium() && chromedriver(),
    get: (say) => debian(["chromium", "chromium-driver"], say),
    hand: {
      linux: ["apt-get install chromium chromium-driver", "or name yours in CHROME_PATH and CHROMEDRIVER"],
      darwin: ["brew install --cask google-chrome chromedriver"],
      win32: ["winget install Google.Chrome", "winget install Chromium.ChromeDriver"],
    },
  },
  firefox: {
    title: "Firefox",
    usual: 40,
    ready: haveFirefox,
    get: (say) => debian(["firefox-esr"], say),
    lacks: () => firefox() && `Firefox ${firefoxRelease()} is too old for WebGPU, ${firefoxVersion} or later is needed`,
    hand: {
      linux: [
        `apt-get install firefox-esr, ${firefoxVersion} or later: Debian has it in its security archive`,
        "or name yours in FIREFOX_PATH",
      ],
      darwin: ["brew install --cask firefox"],
      win32: ["winget install Mozilla.Firefox"],
    },
  },
  geckodriver: {
    title: "geckodriver",
    usual: 60,
    ready: haveGeckodriver,
    get: async (say) => {
      say(`cargo install geckodriver@${geckodriverVersion} into .tools (minutes)`);
      await cargoInstall(`geckodriver@${geckodriverVersion}`, "build-geckodriver");
      rmSync(join(tools, "build-geckodriver"), { recursive: true, force: true });
    },
    hand: { any: ["see the error above, or name yours in GECKODRIVER"] },
  },
  vulkan: {
    title: "Vulkan",
    usual: 40,
    // Metal and DX12 are there on the other systems.
    ready: () => platform() !== "linux" || (haveVulkanLoader() && (hasGpu() || lavapipe())),
    get: (say) => debian(["libvulkan1", "mesa-vulkan-drivers"], say),
    hand: { linux: ["apt-get install libvulkan1 mesa-vulkan-drivers"] },
  },
  models: {
    title: "language models",
    usual: 60,
    ready: haveModels,
    get: async (say) => {
      if (!havePip()) await debian(["python3-pip"], say);
      await getModels(say);
    },
    hand: { any: ["install Python 3 with pip, then npm run setup again; or name a folder that has them in WARPWEFT_MODELS"] },
  },
};

/** The steps for those who work on one side alone. */
const sides = {
  native: ["rust", "crates", "lints", "vulkan", "models"],
  browser: ["rust", "crates", "node", "wasm32", "wasmTools", "lints", "chromium"],
};

/** Steps that run next to the others: downloads, what waits for Debian's packages, and what is compiled alone. */
const lanes = [["node"], ["crates"], ["chromium", "firefox", "vulkan", "models"], ["geckodriver"]];

/** Does the steps named, or all; throws at the end when some could not be done. */
export async function setup(names = Object.keys(steps)) {
  const others = names.filter((name) => !lanes.flat().includes(name));
  const asked = [others, ...lanes.map((lane) => names.filter((name) => lane.includes(name)))];
  const byHand = (await Promise.all(asked.map(doSteps))).flat();
  if (byHand.length) throw new Error(["setup: some tools must be installed by hand:", ...byHand].join("\n  "));
}

/** Does steps one after the other. Returns how a person gets what it could not get. */
async function doSteps(names) {
  const byHand = [];
  for (const { title, usual, ready, get, lacks, hand } of names.map((name) => steps[name])) {
    const say = (what) => print(`setup: ${title}: ${what}`);
    if (await ready()) {
      say("already installed");
      continue;
    }
    try {
      await step(`setup: ${title}`, usual, () => get(say));
      if (!(await ready())) throw new Error(lacks?.() ?? "installed, but not found or too old");
    } catch (error) {
      say(`FAILED: ${error.message}`);
      byHand.push(`${title}:`, ...(hand[platform()] ?? hand.any ?? hand.linux).map((line) => `    ${line}`));
    }
  }
  return byHand;
}

const nodeStamp = join(root, "node_modules", ".installed-from");

/** A name for what node_modules should be made from. */
function nodeWants() {
  return createHash("sha256").update(readFileSync(join(root, "package-lock.json"))).digest("hex");
}

/** wasm-bindgen's program must be the very version of the crate that the library is built with. */
function wasmTools() {
  const bindgen = lockedVersion("wasm-bindgen");
  return [
    { crate: "wasm-bindgen-cli", name: "wasm-bindgen", version: bindgen },
    { crate: "wasm-bindgen-cli", name: "wasm-bindgen-test-runner", version: bindgen },
    { crate: "wasm-pack", name: "wasm-pack", version: wasmPackVersion },
  ];
}

/** One that does not say its version, as on Windows, is taken. */
function haveFirefox() {
  const release = firefoxRelease();
  return Boolean(firefox()) && (release === undefined || release >= firefoxVersion);
}

/** The number of Firefox's release; undefined where it does not say. */
function firefoxRelease() {
  const version = firefox() && /Firefox (\d+)/.exec(read(firefox(), ["--version"]) ?? "")?.[1];
  return version ? Number(version) : undefined;
}

/** A geckodriver that the environment names may have another version. */
function haveGeckodriver() {
  const said = read(geckodriver(), ["--version"]);
  return Boolean(process.env.GECKODRIVER ? said : said?.split(/\s/)[1] === geckodriverVersion);
}

/** Installs a crate's programs; `folder` of the tools is where they are compiled. */
async function cargoInstall(spec, folder) {
  const env = {
    ...process.env,
    CARGO_TARGET_DIR: join(tools, folder), // Kept until all is installed: a stopped run goes on where it was.
    // Ready sooner rather than faster: these tools run for moments. What reads and writes WebAssembly is optimized.
    CARGO_PROFILE_RELEASE_OPT_LEVEL: "0",
    CARGO_PROFILE_RELEASE_LTO: "off",
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS: "16",
    CARGO_PROFILE_RELEASE_DEBUG: "false",
  };
  const optimized = ["walrus", "wasmparser", "wasm-encoder", "wasm-bindgen-cli-support"];
  const config = optimized.flatMap((name) => ["--config", `profile.release.package.${name}.opt-level=1`]);
  const args = ["install", ...config, "--root", tools, spec];
  try {
    await run("cargo", [...args, "--locked"], { env, quiet: true });
  } catch (error) {
    // A registry mirror may lag behind the newest version that the crate's lock file names.
    if (!/failed to select a version|locked to/.test(error.output ?? "")) throw error;
    await run("cargo", args, { env, quiet: true });
  }
}

async function debian(packages, say) {
  if (!mayInstall()) throw new Error("installing needs root and apt-get");
  say(`apt-get install ${packages.join(" ")}`);
  await aptInstall(packages, say);
}

function haveVulkanLoader() {
  const dirs = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
  return dirs.some((dir) => existsSync(join(dir, "libvulkan.so.1")));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { only } = parseArgs({ options: { only: { type: "string" } } }).values;
  const known = only === undefined || Object.hasOwn(sides, only);
  const done = known ? setup(sides[only]) : Promise.reject(new Error(`--only ${only}: there are native and browser`));
  await done.catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
