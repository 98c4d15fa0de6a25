// Runs the JavaScript of README.md and docs/guide.md, word for word, in a page: all blocks one after the other, on WebGPU and
// on the CPU. Tunes kernels only on the CPU here, because this takes half a minute on a software GPU.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { modelFolder } from "../tools/models.mjs";
import { finish, launch, open, serve } from "./support/browser.js";

const javascript = (...path) =>
  [...readFileSync(join(root, ...path), "utf8").matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
// The guide continues where the README ends. Blocks that load a model run alone.
const isLanguage = (block) => block.includes('"warpweft/models"');
const [language, embedder] = javascript("README.md").filter(isLanguage);
const blocks = [...javascript("README.md"), ...javascript("docs", "guide.md")].filter((block) => !isLanguage(block));
const documented = readFileSync(join(root, "docs", "custom-kernels.md"), "utf8");
const kernels = [...documented.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
const { address, close } = await serve({ "/dist/": join(root, "www", "dist"), "/models/": modelFolder });
const browser = await launch();
const results = [];

/** Checks the document about custom kernels: a limited sum, and a blurred ramp. */
async function checkKernels(prefer) {
  expect(kernels.length === 2, `${kernels.length} blocks of JavaScript in custom-kernels.md`);
  const { page, errors } = await open(browser, address);
  const [sum, blurred] = await page.evaluate(
    async ([code, prefer]) => {
      const body = `import { Device } from "${location.origin}/dist/index.js";
        const device = await Device.new({ prefer: "${prefer}" });
        const x = device.tensor([1, 2, 3, 6]);
        ${code}
        export const made = [await y.item(), [...(await blurred.read())]];`;
      const module = URL.createObjectURL(new Blob([body], { type: "text/javascript" }));
      return (await import(module)).made;
    },
    [kernels.join(""), prefer],
  );
  await page.close();
  if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
  const wanted = [3, 6, 9, 18].map((x) => x / (1 + x)).reduce((a, b) => a + b);
  expect(Math.abs(sum - wanted) < 1e-5, `the sum is ${sum}, not ${wanted}`);
  const ring = [3, 2, 11 / 3, 10 / 3];
  expect(blurred.every((x, i) => Math.abs(x - ring[i]) < 1e-5), `blurred is ${blurred}, not ${ring}`);
}

/** Checks the document about training, whose model learns which of two numbers is larger. */
async function checkTraining(prefer) {
  const documented = readFileSync(join(root, "docs", "training.md"), "utf8");
  const [code, ...more] = [...documented.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
  expect(code && more.length === 0, `${more.length + 1} blocks of JavaScript in training.md`);
  const { page, errors } = await open(browser, address);
  const seen = await page.evaluate(
    async ([code, prefer]) => {
      const here = code.replace('"warpweft/nn"', `"${location.origin}/dist/nn.js"`);
      const there = here.replace("Device.new()", `Device.new({ prefer: "${prefer}" })`);
      const body = `${there}
        const { length, [length - 1]: last } = trainer.history;
        export const made = [length, last.validation.metrics.accuracy];`;
      const module = URL.createObjectURL(new Blob([body], { type: "text/javascript" }));
      return (await import(module)).made;
    },
    [code, prefer],
  );
  await page.close();
  if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
  const [epochs, accuracy] = seen;
  expect(epochs > 1 && accuracy > 0.9, `after ${epochs} epochs an accuracy of ${accuracy}`);
}

/** Returns the output of blocks, and `last`, which they may define. `device` replaces the device that they request. */
async function outcome(device, chosen, last) {
  const { page, errors } = await open(browser, address);
  const code = chosen.join("").replace("Device.new()", `Device.new({ prefer: "${device}" })`);
  const printed = await page.evaluate(async ([code, last]) => {
    const map = document.createElement("script");
    const imports = { warpweft: "/dist/index.js", "warpweft/nn": "/dist/nn.js", "warpweft/models": "/dist/models.js" };
    Object.assign(map, { type: "importmap", textContent: JSON.stringify({ imports }) });
    document.head.append(map);
    const printed = [];
    const log = console.log;
    console.log = (...values) => printed.push(values);
    const read = last && `\nexport const made = { shape: ${last}.shape, values: [...(await ${last}.read())] };`;
    const body = code + (read ?? "\nexport const made = undefined;");
    const module = URL.createObjectURL(new Blob([body], { type: "text/javascript" }));
    const { made } = await import(module);
    console.log = log;
    return [...printed, [made]].map((values) => values.map((v) => (ArrayBuffer.isView(v) ? [...v] : v)));
  }, [code, last]);
  await page.close();
  if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
  return printed;
}

function expect(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

async function check(device) {
  expect(blocks.length === 7, `${blocks.length} blocks of JavaScript in README.md and guide.md`);
  // Training runs in a separate page, because a page starts one core.
  const isTraining = (block) => block.includes('"warpweft/nn"');
  const [training] = blocks.filter(isTraining);
  const others = blocks.filter((block) => !isTraining(block) && (device === "cpu" || !block.includes("device.tune()")));
  const [[name], [shape, values], [plan], [profile], [z]] = await outcome(device, others, "z");
  const [[fit]] = await outcome(device, [training], "inputs");
  expect(String(name).startsWith("Device("), `the device is ${name}`);
  expect(String(shape) === "2,4" && values.length === 8, `the result is ${values} of shape ${shape}`);
  for (const row of [values.slice(0, 4), values.slice(4)]) {
    const sum = row.reduce((a, b) => a + b);
    expect(Math.abs(sum - 1) < 1e-6 && row.every((x) => x > 0), `${row} are no probabilities`);
  }
  expect(/matmul/.test(plan) && /3 kernels/.test(plan), `the plan is not as the README says: ${plan}`);
  expect(fit < 0.1, `the network is off by ${fit}`);
  expect(/matmul\[2,3\]x\[3,4\]/.test(profile) && /on the device; recording/.test(profile), `the profile is: ${profile}`);
  expect(String(z.shape) === "2,4" && z.values.every((x) => x >= 0), `relu gave ${z.values}`);
}

async function checkLanguage() {
  const printed = (await outcome("auto", [language])).map(([text]) => text);
  const percents = printed.slice(0, -2).map((line) => parseInt(line));
  expect(percents.length > 10 && percents.at(-1) >= 99, `the progress is ${percents}`);
  expect(printed.at(-2) === "The capital of France is Paris.", `the answer is ${printed.at(-2)}`);
}

async function checkEmbedder() {
  const [[text]] = await outcome("auto", [embedder]);
  expect(text === "A kitten rests on a rug.", `the nearest text is ${text}`);
}

for (const [name, body] of [["language model", checkLanguage], ["embedder", checkEmbedder]]) {
  const result = { name: `the README's ${name}` };
  await body().catch((error) => (result.error = String(error.stack)));
  results.push(result);
}
for (const device of ["software", "cpu"]) {
  const name = `the README's JavaScript, on ${device}`;
  await check(device).then(() => results.push({ name }), (error) => results.push({ name, error: String(error.stack) }));
  const other = `the JavaScript on kernels of one's own, on ${device}`;
  const failedOther = (error) => results.push({ name: other, error: String(error.stack) });
  await checkKernels(device).then(() => results.push({ name: other }), failedOther);
  const training = `the JavaScript on training, on ${device}`;
  const failed = (error) => results.push({ name: training, error: String(error.stack) });
  await checkTraining(device).then(() => results.push({ name: training }), failed);
}
await browser.close();
close();
finish(results);
