// The Rust tests that run inside a browser, through wasm-pack and wasm-bindgen's test runner.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { coreEnv } from "./build.mjs";
import { chromedriver, chromium, chromiumArgs, run, tool, tools } from "./env.mjs";

/** A browser on a busy machine does not always answer chromedriver in time: nothing was tested then. */
const noSession = "failed to create a Chrome session";
const TRIES = 3;

/** Runs them on the browser's WebGPU and CPU; `filter` chooses by a part of the name. Gives what was printed. */
export async function webTests(filter) {
  const options = join(tools, "webdriver.json");
  mkdirSync(tools, { recursive: true });
  writeFileSync(options, JSON.stringify({ "goog:chromeOptions": { args: chromiumArgs(), binary: chromium() } }));
  const env = {
    ...coreEnv("gpu"),
    WASM_BINDGEN_TEST_WEBDRIVER_JSON: options,
    WASM_BINDGEN_TEST_TIMEOUT: "1800", // For all tests together; a GPU played by a CPU is slow.
    WASM_BINDGEN_TEST_DRIVER_TIMEOUT: "60",
  };
  const browser = ["--headless", "--chrome", "--chromedriver", chromedriver(), "--mode", "no-install"];
  const cargo = ["--no-default-features", "--features", "gpu,cpu,js", "--test", "web", "--", "--nocapture"];
  const args = ["test", ...browser, "--", ...cargo, ...(filter ? [filter] : [])];
  for (let left = TRIES - 1; ; left--) {
    try {
      return await run(tool("wasm-pack"), args, { env });
    } catch (error) {
      if (!left || !error.output?.includes(noSession)) throw error;
      console.log(`web: the browser did not start; ${left} more ${left === 1 ? "try" : "tries"}`);
    }
  }
}
