// Tests the demo's page with a language model as a visitor uses it: a click, a question, an answer; a token's neighbors;
// stopping, files that the browser keeps, dropping a file, and a file that is not a model. On a large screen and on a phone's,
// with the real SmolLM2, on the CPU.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { modelFolder } from "../tools/models.mjs";
import { launch, serve } from "../tools/page.mjs";
import { end, expect, listen, test } from "./support/demo.js";

const name = "SmolLM2-135M-Instruct.Q4_1.gguf";
const file = join(modelFolder, name);
const out = join(root, "out");
mkdirSync(out, { recursive: true });

const server = await serve();
const browser = await launch();
const consoleLines = [];

await test("nothing can be loaded before a page's script has started", async () => {
  for (const name of ["ask", "search", "teach"]) {
    const page = await browser.newPage();
    await page.route(`**/${name}.js`, (route) => route.abort());
    await page.goto(`${server.url}/demo/${name}.html`);
    expect(await page.locator("#fetch").isDisabled(), `a click on ${name}.html would be lost`);
    await page.close();
  }
});

await test("a server without pip shows where the model can be had", async () => {
  const models = { ask: "SmolLM2-135M-Instruct", search: "all-MiniLM-L6-v2", teach: "SmolLM2-135M-Instruct" };
  for (const [name, model] of Object.entries(models)) {
    const page = await browser.newPage();
    await page.route("**/models/**", (route) => route.fulfill({ status: 424 }));
    await page.goto(`${server.url}/demo/${name}.html?device=cpu`);
    await page.locator("#fetch:enabled").click();
    const link = page.locator("#notice.error a");
    await link.waitFor({ timeout: 60_000 });
    expect((await link.getAttribute("href")).endsWith(`/${model}`), `${name}: the link is ${await link.getAttribute("href")}`);
    await page.close();
  }
});

for (const [where, width, height] of [["desktop", 1280, 900], ["phone", 390, 844]]) {
  const page = await browser.newPage({ viewport: { width, height } });
  page.setDefaultTimeout(120_000);
  listen(page, consoleLines);
  const button = (name) => page.getByRole("button", { name, exact: true });
  const question = page.locator("#question");
  const answers = page.locator("#talk li.model");
  const ready = () => page.waitForFunction(() => !document.getElementById("question").disabled);
  const notice = () => page.locator("#notice").textContent();
  const kept = page.locator("#kept-list li");
  /** The delay of the model's responses from the server, in milliseconds per request. */
  let delay = 0;
  let requests = 0;
  await page.route("**/models/*", async (route) => {
    requests += 1;
    if (delay) await new Promise((resolve) => setTimeout(resolve, delay));
    await route.continue().catch(() => {}); // The page may have canceled the request.
  });
  const drop = (name) =>
    page.evaluate((name) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["<html>"], name));
      dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
    }, name);
  const ask = async (text) => {
    await question.fill(text);
    await question.press("Enter");
  };

  await test(`${where}: a click, a question, an answer`, async () => {
    await page.goto(`${server.url}/demo/ask.html?device=cpu`);
    // The longest time during which the page was blocked.
    await page.evaluate(() => {
      globalThis.longest = 0;
      let last = performance.now();
      setInterval(() => {
        const now = performance.now();
        globalThis.longest = Math.max(globalThis.longest, now - last - 10);
        last = now;
      }, 10);
    });
    expect(await question.isDisabled(), "there is a question before a model");
    expect(await page.locator("#keep").isChecked(), "the file is not to be kept");
    await button("Load SmolLM2 (98 MB)").click();
    await ready();
    expect((await notice()).startsWith(`${name} runs on `), `the notice is ${await notice()}`);
    await ask("What is the capital of France?");
    await ready();
    const answer = await answers.last().textContent();
    expect(answer === "The capital of France is Paris.", `the answer is ${answer}`);
    expect(/^\d+\.\d tokens\/s$/.test(await page.locator("#speed").textContent()), "there is no speed");
    expect(/^\d+ of \d+ tokens$/.test(await page.locator("#context").textContent()), "the context is not told");
    const { longest } = await page.evaluate(() => ({ longest: globalThis.longest }));
    console.log(`${where}: the page waited ${longest.toFixed(0)} ms at most`);
  });

  await test(`${where}: lines break between words`, async () => {
    const inside = await answers.last().getByRole("button").evaluateAll((all) => all.map((one) => one.textContent));
    expect(inside.length > 4 && inside.every((word) => word && word === word.trim()), `the buttons are ${inside.join("|")}`);
  });

  await test(`${where}: a token's neighbors`, async () => {
    await answers.last().getByRole("button", { name: "Paris" }).click();
    const rows = await page.locator("#likely tr").allTextContents();
    expect(rows.length >= 5 && rows.some((row) => row.startsWith('" Paris"')), `the rows are ${rows.join("; ")}`);
  });

  await test(`${where}: a second question is asked of the same conversation`, async () => {
    await ask("And of Italy?");
    await ready();
    expect((await answers.last().textContent()).includes("Rome"), `the answer is ${await answers.last().textContent()}`);
    await page.screenshot({ path: join(out, `ask-${where}.png`), fullPage: true });
  });

  await test(`${where}: an answer is stopped, and the next one comes`, async () => {
    await ask("Write a long story about a fox.");
    await page.waitForFunction(() => document.querySelectorAll("#talk li:last-child button").length > 5);
    await button("Stop").click();
    await ready();
    const pieces = await answers.last().getByRole("button").count();
    expect(pieces < 60, `${pieces} pieces were written after a stop`);
    await button("New conversation").click();
    expect((await answers.count()) === 0, "the conversation is still there");
    await ask("What is the capital of France?");
    await ready();
    expect((await answers.last().textContent()).includes("Paris"), "the next answer is another one");
  });

  await test(`${where}: the file is kept, and needs no server on the next visit`, async () => {
    await page.reload();
    await kept.first().waitFor();
    const [first, ...others] = await kept.locator("span").allTextContents();
    expect(first === name && others.join() === "98 MB", `kept are ${first} and ${others}`);
    const before = requests;
    await button(`Load ${name}`).click();
    await ready();
    await ask("What is the capital of France?");
    await ready();
    expect((await answers.last().textContent()).includes("Paris"), "the answer is another one");
    expect(requests === before, `the server was asked ${requests - before} times`);
    await page.screenshot({ path: join(out, `ask-kept-${where}.png`), fullPage: true });
    await button(`Delete ${name}`).click();
    await page.locator("#kept").waitFor({ state: "hidden" });
    await page.reload();
    await page.locator("#keep").waitFor();
    expect((await kept.count()) === 0, "the file is still kept");
  });

  await test(`${where}: a load shows the seconds that are left, refuses a dropped file, and is cancelled`, async () => {
    delay = 400;
    await button("Load SmolLM2 (98 MB)").click();
    await page.waitForFunction(() => /^\d+ of 98 MB, \d+ s left$/.test(document.getElementById("progress-text").textContent));
    await page.screenshot({ path: join(out, `ask-loading-${where}.png`), fullPage: true });
    await drop("other.gguf");
    const want = "A model is being loaded. other.gguf was not loaded: drop it again afterwards.";
    expect((await notice()) === want, `the notice is ${await notice()}`);
    await button("Cancel").click();
    await page.locator("#notice.error").waitFor();
    expect((await notice()) === "Loading was cancelled.", `the notice is ${await notice()}`);
    // An interrupted download is listed, and can be deleted.
    const [, size] = await kept.locator("span").allTextContents();
    expect(/^\d+ of 98 MB$/.test(size), `kept are ${size}`);
    await button(`Delete ${name}`).click();
    await page.locator("#kept").waitFor({ state: "hidden" });
    delay = 0;
    const left = consoleLines.filter((line) => !line.includes("/models/"));
    consoleLines.splice(0, consoleLines.length, ...left); // The canceled requests.
  });

  await test(`${where}: a file that is not to be kept`, async () => {
    await page.locator("#keep").uncheck();
    await button("Load SmolLM2 (98 MB)").click();
    await ready();
    expect((await kept.count()) === 0, "the file is kept");
    await page.locator("#keep").check();
  });

  await test(`${where}: a file from the disk, and one that is not a model`, async () => {
    await button("Close the model").click();
    await page.waitForFunction(() => document.getElementById("question").placeholder === "First load a model");
    await drop("dropped.gguf");
    await page.waitForFunction(() => document.getElementById("notice").textContent.includes("must begin with `GGUF`"));
    await page.evaluate(() => (document.getElementById("notice").className = "notice"));
    await page.locator("#file").setInputFiles({ name: "no.gguf", mimeType: "", buffer: Buffer.from("<html>") });
    await page.waitForFunction(() => document.getElementById("notice").className.includes("error"));
    expect((await notice()).includes("load: at byte 0: the file must begin with `GGUF`"), `it says ${await notice()}`);
    await page.locator("#file").setInputFiles(file);
    await ready();
    await ask("What is the capital of France?");
    await ready();
    expect((await answers.last().textContent()).includes("Paris"), "the answer is another one");
  });

  await test(`${where}: nothing is wider than the screen`, async () => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(wide <= 0, `${wide} pixels are outside`);
  });
  await page.close();
}
await browser.close();
server.close();
await end(consoleLines);
