// Runs random programs against an eager float64 interpreter (`www/tests/fuzz`): in Node on the CPU's core, in Chromium on
// WebGPU and on the CPU's core. First tests the fuzzer itself, which must find wrong references.
//
// `WARPWEFT_FUZZ_SECONDS=3600 WARPWEFT_FUZZ_SEED=1000` runs each for an hour, from that seed on. `node www/tests/fuzz/run.js`
// runs only the part in Node.

import { join } from "node:path";
import { root } from "../tools/env.mjs";
import "./fuzz/collect.js";
import { actionsOf, Copies, fuzz, playActions, playSeed } from "./fuzz/fuzz.js";
import { rules } from "./fuzz/rules.js";
import { operations } from "./fuzz/tape.js";
import { finish, launch, open, serve } from "./support/browser.js";
import { importCopy as load } from "./support/copy.js";

/** The same programs in every run, unless the environment sets a time. */
const { WARPWEFT_FUZZ_SECONDS } = process.env;
const [limit, seconds] = WARPWEFT_FUZZ_SECONDS ? [1e9, Number(WARPWEFT_FUZZ_SECONDS)] : [300, 30];
const seed = Number(process.env.WARPWEFT_FUZZ_SEED ?? 1);
const results = [];

/** Wrong references: a gradient, a formula of an optimizer, and a rule of the contract. */
const WRONG = {
  "a gradient of tanh without its square": {
    operations: { tanh: (x) => operations.unary.call(operations, x, Math.tanh, (g) => g) },
  },
  "momentum that forgets": { rules: { sgd: (options, ...rest) => rules.sgd({ ...options, momentum: 0 }, ...rest) } },
  "gradients that are left and not added": {
    world: {
      backward(loss, ids) {
        this.byVariables(loss, ids).forEach((found, n) => found && (this.get("variables", ids[n]).gradient = found));
      },
    },
  },
};

/** Finds a program that differs from a wrong reference, but not from the right one. */
async function findWrong(name, wrong) {
  const copies = new Copies(load);
  for (let at = 1; at <= 400; at++) {
    const { played, finding } = await playSeed(copies, ["cpu", "cpu"], at, { wrong });
    if (!finding) continue;
    if (!(await playActions(copies, ["cpu", "cpu"], actionsOf(played))).finding) return;
  }
  throw new Error(`400 programs do not show that it is wrong: ${name}`);
}

for (const [name, wrong] of Object.entries(WRONG)) {
  const test = `the fuzz finds a wrong reference: ${name}`;
  const error = await findWrong(name, wrong).then(() => undefined, (caught) => String(caught.stack));
  results.push({ name: test, error });
}

/** Records the findings of a run. */
function note(where, { programs, counts, findings }) {
  console.log(`fuzz, ${where}: ${programs} programs from seed ${seed} on: ${JSON.stringify(counts)}`);
  const reports = findings.map((one) => `seed ${one.seed}: ${one.kind}: ${one.message}\n\n${one.text}\n`);
  results.push({ name: `fuzz, ${where}`, error: reports.join("\n") || undefined });
}

note("Node, CPU", await fuzz({ load, prefers: ["cpu", "cpu"], seed, seconds, limit }));

const folders = { "/dist/": join(root, "www", "dist"), "/fuzz/": join(root, "www", "tests", "fuzz") };
const { address, close } = await serve(folders);
const browser = await launch(["--js-flags=--expose-gc"]);
for (const prefers of [["webgpu", "cpu"], ["cpu", "cpu"]]) {
  const { page } = await open(browser, address);
  const given = { prefers, seed, seconds, limit };
  const run = page.evaluate(async (options) => (await import("/fuzz/page.js")).run(options), given);
  const where = `Chromium, ${prefers.join(" and ")}`;
  const failed = (error) => results.push({ name: `fuzz, ${where}`, error: String(error.stack) });
  await run.then((found) => note(where, found), failed);
  await page.close();
}
await browser.close();
close();
finish(results);
