// Tests the demo's page that teaches a language model as a visitor uses it: loading, examples, training, answers before and
// after, stopping, forgetting, and the files of an adapter. On a large screen and on a phone's, with the real SmolLM2, on the
// CPU.

import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { launch, serve } from "../tools/page.mjs";
import { end, expect, listen, named, test } from "./support/demo.js";

/** The number of steps after which the model gives the answer. */
const STEPS = 8;
const out = join(root, "out");
mkdirSync(out, { recursive: true });
const files = ["adapter_config.json", "adapter_model.safetensors"].map((name) => ({ name, path: join(out, name) }));

const server = await serve();
const browser = await launch();
const consoleLines = [];

/** Returns the page's elements, and the actions of a visitor. */
function visitor(page) {
  const button = (name) => page.getByRole("button", { name, exact: true });
  const text = (id) => page.locator(`#${id}`).textContent();
  const idle = () => page.waitForFunction(() => !document.getElementById("teach").disabled);
  const error = async (words) => {
    await page.waitForFunction((words) => document.querySelector("#notice.error")?.textContent.includes(words), words);
    await page.evaluate(() => (document.getElementById("notice").className = "notice"));
  };
  const load = async () => {
    await page.goto(`${server.url}/demo/teach.html?device=cpu`);
    await button("Load SmolLM2 (98 MB)").click();
    await idle();
  };
  const drop = (content) =>
    page.evaluate((content) => {
      const dataTransfer = new DataTransfer();
      for (const [name, bytes] of content) {
        const binary = Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0));
        dataTransfer.items.add(new File([binary], name));
      }
      dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
    }, content);
  const steps = async () => Number(await text("done"));
  const screenshot = (name) => page.screenshot({ path: join(out, `teach-${name}.png`), fullPage: true });
  return { button, text, idle, error, load, drop, steps, screenshot };
}

async function open(width, height) {
  const page = await browser.newPage({ viewport: { width, height }, acceptDownloads: true });
  page.setDefaultTimeout(120_000);
  listen(page, consoleLines);
  return { page, ...visitor(page) };
}

async function wellMade(page) {
  await named(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  expect(wide <= 0, `${wide} pixels are outside`);
}

async function desktop() {
  const { page, button, text, idle, error, load, drop, steps, screenshot } = await open(1280, 900);
  /** The answer of the taught model, which must be the same later. */
  let learned;

  await test("a model is loaded", async () => {
    await page.goto(`${server.url}/demo/teach.html?device=cpu`);
    await page.waitForFunction(() => window.demo);
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
    expect(await button("Teach").isDisabled(), "there is teaching before a model");
    await drop([["adapter_config.json", ""], ["adapter_model.safetensors", ""]]);
    expect((await text("notice")).startsWith("Load a model first"), `the notice is ${await text("notice")}`);
    await button("Load SmolLM2 (98 MB)").click();
    await idle();
    expect((await text("notice")).endsWith(" runs on the CPU, on one thread."), `the notice is ${await text("notice")}`);
    expect((await text("estimate")).includes("some seconds"), "the page does not say that a step is slow");
    expect((await page.locator("#steps").inputValue()) === "12", "there are as many steps as on a GPU");
    await screenshot("loaded");
  });

  await test("examples and settings that cannot be used", async () => {
    for (const [id, value, words] of [
      ["steps", "2.5", "The steps must be a whole number from 1 to 1,000, got 2.5."],
      ["rate", "", "The learning rate must be above 0 and at most 1, got nothing."],
      ["rank", "100", "The rank must be a whole number from 1 to 64, got 100."],
    ]) {
      const field = page.locator(`#${id}`);
      const before = await field.inputValue();
      await field.fill(value);
      await button("Teach").click();
      await error(words);
      await field.fill(before);
    }
    await button("Remove question 3").click();
    await page.getByLabel("Answer 2", { exact: true }).fill(" ");
    await button("Teach").click();
    await error("Question 2 needs a question and an answer.");
    await button("Remove question 2").click();
    await button("Remove question 1").click();
    await button("Teach").click();
    await error("There is nothing to learn.");
    await button("Add a question").click();
    await page.getByLabel("Question 1", { exact: true }).fill("Who is Zeppelin?");
    await page.getByLabel("Answer 1", { exact: true }).fill("Zeppelin is a gray cat who lives in a lighthouse.");
    expect((await page.locator("#question").inputValue()) === "Who is Zeppelin?", "the question is another one");
  });

  await test("the loss falls, and the answer after has the new words", async () => {
    await page.locator("#steps").fill(`${STEPS}`);
    await button("Teach").click();
    await page.waitForFunction(() => /^Step \d+ of \d+, \d+ s left$/.test(document.getElementById("taught-text").textContent));
    await page.waitForFunction(() => document.getElementById("done").textContent === "4");
    await screenshot("teaching");
    await idle();
    const [last, first] = (await text("loss")).split(", at first ").map(Number);
    console.log(`the loss was ${first}, then ${last}; a step took ${await text("pace")}`);
    expect(last < first / 4, `the loss was ${first}, then ${last}`);
    const [before, after] = [await text("before"), await text("after")];
    console.log(`before: ${before}\nafter: ${after}`);
    expect(/cat\b.*lighthouse/.test(after) && !/cat\b|lighthouse/.test(before), "the answers are other ones");
    learned = after;
    const { longest } = await page.evaluate(() => ({ longest: globalThis.longest }));
    console.log(`the page waited ${longest.toFixed(0)} ms at most`);
    expect(longest < 1000, "the page was blocked");
    await screenshot("desktop");
  });

  await test("an adapter is saved, forgotten and loaded", async () => {
    const arrived = [];
    page.on("download", (download) => arrived.push(download));
    await button("Save the adapter").click();
    while (arrived.length < 2) await page.waitForTimeout(50);
    for (const { name, path } of files) await arrived.find((one) => one.suggestedFilename() === name).saveAs(path);
    expect(JSON.parse(readFileSync(files[0].path, "utf8")).r === 8, "the rank is another one");
    await button("Forget").click();
    await page.waitForFunction(() => document.getElementById("done").textContent === "0");
    await idle();
    await button("Ask").click();
    await idle();
    expect((await text("after")) === "The answer after training appears here.", "the model knows it still");
    expect(!(await page.locator("#rank").isDisabled()), "the rank cannot be changed");
    await page.locator("#adapter").setInputFiles(files[0].path);
    await error("An adapter is two files.");
    await page.locator("#adapter").setInputFiles(files.map(({ path }) => path));
    await page.waitForFunction(() => document.getElementById("estimate").textContent.startsWith("The adapter was loaded."));
    await idle();
    expect((await text("after")) === learned, `the answer is ${await text("after")}`);
  });

  await test("training goes on, is stopped, and what was learned stays", async () => {
    await page.locator("#steps").fill("500");
    await button("Teach again").click();
    await page.waitForFunction(() => document.getElementById("done").textContent === "2");
    await page.locator("#stop").click();
    await idle();
    const done = await steps();
    expect(done >= 2 && done <= 4, `${done} steps were done`);
    expect((await text("estimate")).startsWith("Training was stopped."), `the page says ${await text("estimate")}`);
    expect((await text("after")).includes("lighthouse"), `the answer is ${await text("after")}`);
  });

  await test("nothing is wider than the screen, and the model is closed", async () => {
    await wellMade(page);
    await button("Close the model").click();
    await page.waitForFunction(() => document.getElementById("estimate").textContent === "Load a model to teach it.");
    expect(await button("Teach").isDisabled(), "there is teaching without a model");
  });
  await page.close();
}

async function phone() {
  const { page, button, text, idle, error, load, drop, steps, screenshot } = await open(390, 844);

  await test("phone: a dropped adapter", async () => {
    await load();
    const content = files.map(({ name, path }) => [name, readFileSync(path).toString("base64")]);
    await drop([[files[0].name, btoa("{")], content[1]]);
    await error("loadAdapter");
    await drop(content);
    await page.waitForFunction(() => document.getElementById("estimate").textContent.startsWith("The adapter was loaded."));
    await idle();
    expect((await text("after")).includes("lighthouse"), `the answer is ${await text("after")}`);
    await button("Forget").click();
    await idle();
  });

  await test("phone: a text is learned", async () => {
    for (let n = 0; n < 3; n++) await button("Remove question 1").click();
    const sentence = "The harbor of Brimmel has eleven cranes, and each crane has the name of a fish. ";
    await page.locator("#texts").fill(`${sentence}\n\n${sentence.repeat(8)}`);
    await page.locator("#steps").fill("2");
    await button("Teach").click();
    await page.waitForFunction(() => document.getElementById("done").textContent === "2");
    await idle();
    const [last, first] = (await text("loss")).split(", at first ").map(Number);
    console.log(`phone: the loss was ${first}, then ${last}; a step took ${await text("pace")}`);
    expect(last < first, `the loss was ${first}, then ${last}`);
    expect((await steps()) === 2, "the steps are others");
  });

  await test("phone: an answer is stopped", async () => {
    await page.locator("#question").fill("Tell me a long story.");
    await button("Ask").click();
    await page.waitForFunction(() => document.getElementById("after").textContent.length > 20);
    await page.locator("#quiet").click();
    await idle();
    expect((await text("after")).length < 150, "the answer was not stopped");
    await screenshot("phone");
    await wellMade(page);
  });
  await page.close();
}

await desktop();
await phone();
await browser.close();
server.close();
await end(consoleLines);
