// `npm run setup`: installs the missing tools for building and testing.
//
// `-- --only native` installs the tools for testing the Rust library, without a browser and node packages. `-- --only browser`
// installs the tools for the npm package, without Vulkan. `-- --only mpi` installs MPI. Other commands install what they need.
//
// Each step first checks whether it is already done. An installation appears completely or not at all, so an interrupted run
// can be started again. Only Debian packages are installed into the system. All other files are in node_modules and .tools.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { platform } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { aptInstall, mayInstall } from "./apt.mjs";
import { chromedriver, chromium, firefox, geckodriver, hasGpu, haveMpi, lavapipe, lockedVersion } from "./env.mjs";
import { onPath, read, root, run, tool, tools } from "./env.mjs";
import { getModels, haveModels } from "./models.mjs";
import { say as print, step } from "./progress.mjs";
import { getPtxas, havePtxas } from "./ptxas.mjs";
import { addWasm32, haveWasm32, rustWebTool } from "./rust-web.mjs";
import { havePip } from "./wheels.mjs";

const wasmPackVersion = "0.15.1";
const geckodriverVersion = "0.37.1";
/** The oldest Firefox whose WebGPU was tested successfully on Linux. */
const firefoxVersion = 153;

/**
 * The steps in order. `ready` checks, `get` installs, and `hand` has instructions for manual installation. `usual` is the
 * approximate time of the installation in seconds.
 */
const steps = {
  rust: {
    title: "Rust",
    usual: 20,
    ready: () => haveRust() && (platform() === "win32" || onPath("cc")),
    get: async (say) => {
      if (!haveRust()) throw new Error("cargo or rustc is not on PATH");
      await debian(["gcc", "libc6-dev"], say); // rustc links with cc.
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
      writeFileSync(nodeStamp, nodeWants()); // npm ci first removes the folder, so a stamp means a complete one.
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
    // Other systems include Metal or DX12.
    ready: () => platform() !== "linux" || (haveVulkanLoader() && (hasGpu() || lavapipe())),
    get: (say) => debian(["libvulkan1", "mesa-vulkan-drivers"], say),
    hand: { linux: ["apt-get install libvulkan1 mesa-vulkan-drivers"] },
  },
  models: {
    title: "language models",
    usual: 60,
    ready: haveModels,
    get: async (say) => {
      await needPip(say);
      await getModels(say);
    },
    hand: { any: ["install Python 3 with pip, then npm run setup again; or name a folder that has them in WARPWEFT_MODELS"] },
  },
  mpi: {
    title: "MPI",
    usual: 40,
    // Only the tests on Linux need it.
    ready: () => platform() !== "linux" || haveMpi(),
    get: (say) => debian(["libopenmpi-dev", "openmpi-bin", "libclang-dev", "iproute2"], say),
    hand: { linux: ["apt-get install libopenmpi-dev openmpi-bin libclang-dev iproute2"] },
  },
  ptxas: {
    title: "ptxas",
    usual: 20,
    ready: havePtxas,
    get: async (say) => {
      await needPip(say);
      await getPtxas(say);
    },
    hand: { any: ["install Python 3 with pip, then npm run setup again"] },
  },
};

/** The steps for work on only one side. */
const sides = {
  native: ["rust", "crates", "lints", "vulkan", "mpi", "models", "ptxas"],
  mpi: ["rust", "mpi"],
  browser: ["rust", "crates", "node", "wasm32", "wasmTools", "lints", "chromium"],
};

/** Steps that run in parallel with the others: downloads, installations of Debian's packages, and separate compilations. */
const lanes = [["node"], ["crates"], ["chromium", "firefox", "vulkan", "mpi", "models", "ptxas"], ["geckodriver"]];

/** Runs the named steps, or all. Throws at the end if some failed. */
export async function setup(names = Object.keys(steps)) {
  // First, because other steps compile programs.
  const byHand = await doSteps(names.filter((name) => name === "rust"));
  const others = names.filter((name) => name !== "rust" && !lanes.flat().includes(name));
  const asked = [others, ...lanes.map((lane) => names.filter((name) => lane.includes(name)))];
  byHand.push(...(await Promise.all(asked.map(doSteps))).flat());
  if (byHand.length) throw new Error(["setup: some tools must be installed by hand:", ...byHand].join("\n  "));
}

/** Runs steps one after the other. Returns instructions for the steps that failed. */
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

/** Whether the compiler of Rust is installed, without the linker that it needs. */
const haveRust = () => onPath("cargo") && onPath("rustc");

const nodeStamp = join(root, "node_modules", ".installed-from");

/** Returns a hash that identifies the required content of node_modules. */
function nodeWants() {
  return createHash("sha256").update(readFileSync(join(root, "package-lock.json"))).digest("hex");
}

/** Returns the required tools. The version of wasm-bindgen's program must equal that of the crate. */
function wasmTools() {
  const bindgen = lockedVersion("wasm-bindgen");
  return [
    { crate: "wasm-bindgen-cli", name: "wasm-bindgen", version: bindgen },
    { crate: "wasm-bindgen-cli", name: "wasm-bindgen-test-runner", version: bindgen },
    { crate: "wasm-pack", name: "wasm-pack", version: wasmPackVersion },
  ];
}

/** A Firefox that does not print its version, as on Windows, is accepted. */
function haveFirefox() {
  const release = firefoxRelease();
  return Boolean(firefox()) && (release === undefined || release >= firefoxVersion);
}

/** Returns the major version of Firefox, or undefined if it does not print its version. */
function firefoxRelease() {
  const version = firefox() && /Firefox (\d+)/.exec(read(firefox(), ["--version"]) ?? "")?.[1];
  return version ? Number(version) : undefined;
}

/** The version is not checked if the environment names a geckodriver. */
function haveGeckodriver() {
  const version = read(geckodriver(), ["--version"]);
  return Boolean(process.env.GECKODRIVER ? version : version?.split(/\s/)[1] === geckodriverVersion);
}

/** Installs a crate's programs. They are compiled in the subfolder `folder` of the tools. */
async function cargoInstall(spec, folder) {
  const env = {
    ...process.env,
    CARGO_TARGET_DIR: join(tools, folder), // Kept until all is installed, so that an interrupted run continues.
    // Compiled with little optimization, because these tools run only briefly. Crates that process WebAssembly are optimized.
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
    // A registry mirror may lack the newest versions that the crate's lock file names.
    if (!/failed to select a version|locked to/.test(error.output ?? "")) throw error;
    await run("cargo", args, { env, quiet: true });
  }
}

async function needPip(say) {
  if (!havePip()) await debian(["python3-pip"], say);
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
  const wrong = () => Promise.reject(new Error(`--only ${only}: there are ${Object.keys(sides).join(", ")}`));
  const done = known ? setup(sides[only]) : wrong();
  await done.catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}
