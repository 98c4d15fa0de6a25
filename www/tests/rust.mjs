// Tests the Rust example in Chromium: a page with a crate that depends on warpweft, built by wasm-pack as its user would.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { coreEnv } from "../tools/build.mjs";
import { root, run, tool } from "../tools/env.mjs";
import { finish, launch, open, serve } from "./support/browser.js";

const app = join(root, "www", "examples", "rust");
const out = join(root, "out", "rust-example");
const options = ["--target", "web", "--dev", "--mode", "no-install", "--out-dir", out];
// Without optimizing the library, as cargo does by default, because that takes minutes.
const cargo = ["--config", "profile.dev.package.warpweft.opt-level=0"];
await run(tool("wasm-pack"), ["build", app, ...options, "--", ...cargo], { env: coreEnv("gpu"), quiet: true });

const { address, close } = await serve({ "/app/pkg/": out, "/app/": app });
const browser = await launch();
const results = [];

async function test(name, body) {
  await body().then(() => results.push({ name }), (error) => results.push({ name, error: String(error.stack) }));
}

for (const device of ["auto", "software", "cpu"]) {
  await test(`a line is fitted on ${device}`, async () => {
    const { page, errors } = await open(browser, `${address}/app/index.html?device=${device}`);
    const output = page.locator("output:not(:empty)");
    const shown = await output.textContent({ timeout: 60_000 });
    if (shown !== "y = 3.000 x + -0.500") throw new Error(`the page says: ${shown}`);
    if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
    await page.close();
  });
}

await test("without the feature js there are no classes", async () => {
  const script = readFileSync(join(out, "warpweft_page.js"), "utf8");
  const classes = [...script.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
  if (classes.length) throw new Error(`the module has ${classes.join(", ")}`);
  if (!/^export function fitLine/m.test(script)) throw new Error("the module has no fitLine");
});

await browser.close();
close();
finish(results);
