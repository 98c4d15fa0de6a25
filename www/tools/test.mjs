// `npm test`: sets up, builds, tests natively, in a browser and as a web page, and checks. CI runs this command.
//
// `npm test -- --only native|web|firefox|page|check` runs one stage, or several separated by commas, and the setup that they
// need. A full run takes samples of what repeats: the browser's cases, native cases with other GPU kernels, and models in other
// browsers. With `--only`, all of these run. `--only web` uses Chromium, or Firefox with `--browser firefox`.

import { readdirSync } from "node:fs";
import { arch, platform } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { build } from "./build.mjs";
import { check } from "./check.mjs";
import { stage as stageVectors } from "./conformance.mjs";
import { features, nativeEnv, nativeTestEnv, root, run } from "./env.mjs";
import { setup } from "./setup.mjs";
import { browsers, compileWebTests, webTests } from "./web-tests.mjs";

const { values } = parseArgs({ options: { only: { type: "string" }, browser: { type: "string", default: "chromium" } } });
const browser = browsers[values.browser];
if (!browser) {
  console.error(`test: --browser must be one of ${Object.keys(browsers).join(", ")}, got ${values.browser}`);
  process.exit(2);
}

/** Of the tests that repeat in another setting, one in this many runs. Rust tests and scripts read it from `WARPWEFT_EVERY`. */
const every = values.only ? "1" : "8";

/** The stages in order, with the setup that each needs, and the tests that it runs. */
const stages = {
  native: { needs: ["rust", "vulkan", "mpi", "models", "ptxas"], test: testNative },
  web: { needs: ["rust", "wasm32", "wasmTools", ...browser.needs], test: () => testWeb(values.browser, values.only ? 1 : 24) },
  firefox: { needs: ["rust", "wasm32", "wasmTools", ...browsers.firefox.needs], test: () => testWeb("firefox", SAMPLE) },
  page: { needs: ["rust", "node", "wasm32", "wasmTools", "chromium", ...browsers.firefox.needs], test: testPages },
  check: { needs: ["rust", "node", "wasm32", "wasmTools", "lints"], test: check },
};

/** Runs the Rust tests. A missing backend is a failure, so that no tests are skipped silently. */
async function testNative() {
  // Elsewhere there is no ptxas, and a message says so.
  const required = ["cpu", "wgpu", "models", ...(platform() === "linux" && arch() === "x64" ? ["ptxas"] : [])];
  const env = { WARPWEFT_REQUIRE: required.join(","), WARPWEFT_EVERY: every, ...nativeTestEnv() };
  if (!features().length) {
    const text = "SKIPPED: tests of several ranks, because they need Linux with MPI (npm run setup -- --only mpi)";
    console.log(`native: ${text}`);
    if (process.env.CI && platform() === "linux") throw new Error(text);
  }
  return counted(() => run("cargo", ["test", "--workspace", ...features(), "--no-fail-fast"], { env }));
}

/**
 * The sampling rate in Firefox: one in this many cases without f16. Firefox runs all cases with f16, because Chromium's
 * software GPU has no f16.
 */
const SAMPLE = 40;

/**
 * Runs the Rust tests inside a browser, on its WebGPU. Of the cases without f16, one in `every` runs. In a full run, the output
 * is printed at the end, because other tests run in parallel.
 */
async function testWeb(browser, every = 1) {
  if (every > 1) console.log(`web: ${browser}: runs 1 of ${every} cases without f16; --only web runs all`);
  stageVectors({ every });
  const quiet = !values.only;
  let output = "";
  const count = await counted(async () => {
    output = await webTests({ browser, quiet }).catch((error) => {
      output = error.output ?? "";
      throw error;
    });
    return output;
  });
  if (quiet) console.log(`web: ${browser}:\n${output}`);
  return count;
}

/** The number of scripts that run in parallel. Browsers wait much of their time. */
const LANES = 2;

/** The scripts that take minutes. They run first, so that none of them is alone at the end. */
const LONGEST = [
  ...["language.mjs", "package.mjs", "demo-teach.mjs", "language-calls.mjs"],
  ...["demo.mjs", "rust.mjs", "integrations.mjs"],
];

/** Runs the scripts in www/tests, which use the built package as a web page or program does. */
async function testPages() {
  await build();
  const dir = join(root, "www", "tests");
  const found = readdirSync(dir).filter((name) => name.endsWith(".mjs")).sort();
  const scripts = [...LONGEST, ...found.filter((name) => !LONGEST.includes(name))];
  const env = { WARPWEFT_EVERY: every, ...nativeEnv() };
  const sum = { passed: 0, failed: 0 };
  const next = async () => {
    for (let name; (name = scripts.shift()); ) {
      const start = Date.now();
      let output = "";
      const { passed, failed } = await counted(async () => {
        const work = run(process.execPath, [join(dir, name)], { env, quiet: true });
        output = await work.catch((error) => error.output ?? "");
        return work;
      });
      // Printed at the end, because the output of parallel scripts would be mixed.
      console.log(`page: ${name}: ${Math.round((Date.now() - start) / 1000)} s\n${output}`);
      sum.passed += failed || passed ? passed : 1; // A script that counts nothing is one test.
      sum.failed += failed;
    }
  };
  await Promise.all(Array.from({ length: LANES }, next));
  return sum;
}

/** What failed. It is printed again at the end, because the output has thousands of lines. */
const failures = [];

/** Adds up the test counts in the output of `start`. A failure without a count is one failed test. */
async function counted(start) {
  const count = { passed: 0, failed: 0 };
  const add = (output) => {
    failures.push(...(output.match(/^FAILED .*|^test .* \.\.\. FAILED$/gm) ?? []));
    for (const [, passed, failed] of output.matchAll(/^(?:test result: .*?)?(\d+) passed[;,] (\d+) failed/gm)) {
      count.passed += Number(passed);
      count.failed += Number(failed);
    }
  };
  try {
    add(await start());
  } catch (error) {
    console.error(error.message);
    failures.push(error.message);
    add(error.output ?? "");
    count.failed ||= 1;
  }
  return count;
}

const chosen = values.only?.split(",") ?? Object.keys(stages);
const unknown = chosen.filter((name) => !stages[name]);
if (unknown.length) {
  console.error(`test: stages must be among ${Object.keys(stages).join(", ")}, got ${unknown.join(", ")}`);
  process.exit(2);
}

const lines = [];
const total = { passed: 0, failed: 0 };
/** Runs a stage. After a failure, the next stages still run. */
async function stage(name, start) {
  const began = Date.now();
  const { passed, failed } = await start().catch((error) => {
    console.error(error.message);
    failures.push(`${name}: ${error.message}`);
    return { passed: 0, failed: 1 };
  });
  total.passed += passed;
  total.failed += failed;
  lines.push(`${name.padEnd(7)}  ${passed} passed, ${failed} failed, ${Math.round((Date.now() - began) / 1000)} s`);
}

const nothing = { passed: 0, failed: 0 };
const needs = new Set(chosen.flatMap((name) => stages[name].needs));
await stage("setup", () => setup(values.only ? [...needs] : undefined).then(() => nothing));
// In parallel, because each ends with minutes of single-threaded work.
const compile = () => run("cargo", ["test", "--workspace", ...features(), "--no-run"], { env: nativeTestEnv() });
if (!values.only) await stage("build", () => Promise.all([build(), compile(), compileWebTests()]).then(() => nothing));
// The tests in a browser use one processor.
const groups = values.only ? [[chosen]] : [[["native"], ["web", "firefox"]], [["page"]], [["check"]]];
for (const lanes of groups) {
  await Promise.all(lanes.map(async (lane) => {
    for (const name of lane) await stage(name, stages[name].test);
  }));
}

if (failures.length) console.log(`\n${failures.join("\n")}`);
console.log(`\n${lines.join("\n")}\n\n${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed ? 1 : 0);
