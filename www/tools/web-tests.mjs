// The Rust tests that run inside a browser, with wasm-pack and wasm-bindgen's test runner.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { coreEnv } from "./build.mjs";
import { chromedriver, chromium, chromiumArgs, firefoxOptions, geckodriver, run, tool, tools } from "./env.mjs";

/** The browsers: their setup, their functions to open pages, and the options of wasm-pack and its runner. */
export const browsers = {
  chromium: {
    title: "Chromium",
    needs: ["chromium"],
    pages: () => import("./page.mjs"), // Imported here, because setup installs its dependencies.
    driver: () => ["--chrome", "--chromedriver", chromedriver()],
    options: () => ({ "goog:chromeOptions": { args: chromiumArgs(), binary: chromium() } }),
  },
  firefox: {
    title: "Firefox",
    needs: ["vulkan", "firefox", "geckodriver"],
    pages: () => import("./firefox.mjs"),
    driver: () => ["--firefox", "--geckodriver", geckodriver()],
    options: () => ({ "moz:firefoxOptions": firefoxOptions() }),
  },
};

/** Matches the error when a browser on a busy machine does not answer its driver in time. Nothing was tested then. */
const noSession = /failed to create a Chrome session|session not created/;
const TRIES = 3;

/** Cargo's arguments for the tests. */
const cargo = ["--no-default-features", "--features", "gpu,cpu,js-models,unstable", "--test", "browser"];

/** Returns the environment of cargo. The flags are those of the CPU cores, whose kernels use SIMD. */
const cargoEnv = () => coreEnv("cpu-models");

/** Compiles the tests. The build is the one that wasm-pack makes. */
export function compileWebTests() {
  const target = ["--target", "wasm32-unknown-unknown"];
  return run("cargo", ["test", "--no-run", ...target, ...cargo], { env: cargoEnv(), quiet: true });
}

/**
 * Runs the tests on a browser's WebGPU and CPU. `filter` selects tests by a part of their name. Returns the output. With
 * `quiet`, it is not printed.
 */
export async function webTests({ browser = "chromium", filter, quiet = false } = {}) {
  const { driver, options } = browsers[browser];
  const file = join(tools, `webdriver-${browser}.json`);
  mkdirSync(tools, { recursive: true });
  writeFileSync(file, JSON.stringify(options()));
  const env = {
    ...cargoEnv(),
    WASM_BINDGEN_TEST_WEBDRIVER_JSON: file,
    WASM_BINDGEN_TEST_TIMEOUT: "1800", // For all tests together; a software GPU is slow.
    WASM_BINDGEN_TEST_DRIVER_TIMEOUT: "60",
  };
  const names = filter ? [filter] : [];
  const args = ["test", "--headless", ...driver(), "--mode", "no-install", "--", ...cargo, "--", "--nocapture", ...names];
  for (let left = TRIES - 1; ; left--) {
    try {
      return await run(tool("wasm-pack"), args, { env, quiet });
    } catch (error) {
      if (!left || !noSession.test(error.output ?? "")) throw error;
      console.log(`web: the browser did not start; ${left} ${left === 1 ? "attempt" : "attempts"} left`);
    }
  }
}
