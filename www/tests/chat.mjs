// Tests the chat example with the package as npm installs it. It is built by Vite, and answers a question in Chromium with the
// real SmolLM2, from a file and from the server of another site.

import { createReadStream, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { build, preview } from "vite";
import { root, run } from "../tools/env.mjs";
import { modelFolder } from "../tools/models.mjs";
import { finish, launch, open } from "./support/browser.js";
import { install } from "./support/example.js";

const file = join(modelFolder, "SmolLM2-135M-Instruct.Q4_1.gguf");
const { size } = statSync(file);
const results = [];

async function test(name, body) {
  const began = Date.now();
  try {
    await body();
    results.push({ name });
  } catch (error) {
    results.push({ name, error: String(error?.stack ?? error) });
  }
  console.log(`${name}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

function says(text, ...words) {
  for (const word of words) if (!text.includes(word)) throw new Error(`no ${word} in ${text}`);
}

const app = await install("chat-example", "chat");
await test("the example is installed, has the right types, and is built", async () => {
  const path = join(app, "package.json");
  const settings = JSON.parse(readFileSync(path, "utf8"));
  settings.dependencies.warpweft = `file:${readdirSync(app).find((name) => name.endsWith(".tgz"))}`;
  delete settings.devDependencies.vite; // The repository's Vite is used.
  writeFileSync(path, JSON.stringify(settings));
  const install = ["install", "--include=dev", "--no-audit", "--no-fund", "--no-package-lock", "--prefer-offline"];
  // A registry may fail temporarily.
  await run("npm", install, { cwd: app, quiet: true }).catch(() => run("npm", install, { cwd: app, quiet: true }));
  await run(process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-p", app], { quiet: true });
  await build({ root: app, logLevel: "warn" });
});

// Without the built page, nothing more can be tested.
if (results[0].error) finish(results);

/** The server of another site, from which pages may read ranges. */
const requests = [];
const server = createServer((request, response) => {
  requests.push(request.headers.range);
  const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [0, 0, size - 1];
  const range = { start: Number(start), end: Math.min(Number(end), size - 1) };
  const cors = { "access-control-allow-origin": "*", "access-control-expose-headers": "content-range, etag" };
  response.writeHead(206, { ...cors, "content-range": `bytes ${range.start}-${range.end}/${size}`, etag: '"1"' });
  createReadStream(file, range).pipe(response);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const built = await preview({ root: app, logLevel: "warn", preview: { host: "127.0.0.1" } });
const browser = await launch();
const { page, errors } = await open(browser, built.resolvedUrls.local[0]);
page.setDefaultTimeout(60_000);
const status = page.getByRole("status");
const button = (name) => page.getByRole("button", { name, exact: true });
const answers = page.locator(".assistant");
const isReady = () => page.waitForFunction(() => document.querySelector("[role=status]").textContent === "Ready.");

async function ask(question) {
  await page.getByLabel("Question").fill(question);
  await button("Ask").click();
}

await test("a file, a question, an answer", async () => {
  if (await button("Ask").isEnabled()) throw new Error("there is a question before a model");
  await page.getByLabel("File").setInputFiles(file);
  await isReady();
  await ask("What is the capital of France?");
  await isReady();
  says(await answers.last().textContent(), "Paris");
});

await test("an answer is stopped, and the next one comes", async () => {
  await ask("Write a long story about a fox.");
  await page.waitForFunction(() => [...document.querySelectorAll(".assistant")].at(-1).textContent.length > 20);
  await button("Stop").click();
  await page.waitForFunction(() => document.querySelector("[role=status]").textContent === "Stopped.");
  await ask("What is the capital of France?");
  await isReady();
  says(await answers.last().textContent(), "Paris");
});

await test("an address, which the next visit reads from the browser", async () => {
  const load = async () => {
    await page.getByLabel("URL").fill(`http://127.0.0.1:${server.address().port}/model.gguf`);
    await button("Load").click();
    await isReady();
    await ask("What is the capital of France?");
    await isReady();
    says(await answers.last().textContent(), "Paris");
  };
  await load();
  const { length } = requests;
  await page.reload();
  await load();
  if (length === 0 || requests.length !== length) throw new Error(`${length} requests, then ${requests.length}`);
});

await test("an error is shown", async () => {
  await page.getByLabel("File").setInputFiles({ name: "no.gguf", mimeType: "", buffer: Buffer.from("<html>") });
  await page.waitForFunction(() => document.querySelector("[role=status]").textContent.includes("must begin with `GGUF`"));
  says(await status.textContent(), "load: at byte 0");
  if (errors.length) throw new Error(`errors on the console: ${errors.join("; ")}`);
});

await browser.close();
await built.close();
server.close();
finish(results);
