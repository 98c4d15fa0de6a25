// Tests the demo's page that searches by meaning as a visitor uses it: a click, a query, results; queries in fast succession,
// other texts, long and empty ones, files, a model folder, a lost device. On a large screen and on a phone's, with the real
// all-MiniLM-L6-v2, on the CPU. The lost device is a GPU.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { modelFolder } from "../tools/models.mjs";
import { launch, serve } from "../tools/page.mjs";
import { end, expect, listen, named, test } from "./support/demo.js";

const folder = join(modelFolder, "all-MiniLM-L6-v2");
const animals = /kitten|beagle|parrot|hamster|puppy|tabby|rabbit|wolves|whale|bees/i;
const out = join(root, "out");
mkdirSync(out, { recursive: true });

const server = await serve();
const browser = await launch();
const consoleLines = [];

/** Returns the page's elements, and the actions of a visitor. */
function visitor(page) {
  const button = (name) => page.getByRole("button", { name, exact: true });
  const query = page.locator("#query");
  const area = page.locator("#text");
  const results = page.locator("#results li:visible .piece");
  const loaded = () => page.waitForFunction(() => !document.getElementById("query").disabled);
  /** Waits until the text's vectors are ready and the results belong to this query. */
  const found = (text) =>
    page.waitForFunction((text) => {
      const { dataset } = document.getElementById("results");
      const isReady = document.getElementById("embedding").hidden;
      return isReady && dataset.query === text && !document.getElementById("summary").textContent.includes("ready");
    }, text);
  const notice = () => page.locator("#notice").textContent();
  const summary = (words) =>
    page.waitForFunction((words) => document.getElementById("summary").textContent.startsWith(words), words);
  const error = async (words) => {
    await page.waitForFunction((words) => document.querySelector("#notice.error")?.textContent.includes(words), words);
    await page.evaluate(() => (document.getElementById("notice").className = "notice"));
  };
  const drop = (name, content) =>
    page.evaluate(([name, content]) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([content], name));
      dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
    }, [name, content]);
  /** Replaces the text as a paste does. Playwright's methods take minutes for many lines. */
  const replace = (content) =>
    area.evaluate((area, content) => {
      area.value = content;
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }, content);
  const search = async (text) => {
    await query.fill(text);
    await found(text);
    return results.allTextContents();
  };
  return { button, query, area, results, loaded, found, notice, summary, error, drop, replace, search };
}

for (const [where, width, height] of [["desktop", 1280, 900], ["phone", 390, 844]]) {
  const page = await browser.newPage({ viewport: { width, height } });
  page.setDefaultTimeout(120_000);
  listen(page, consoleLines);
  const { button, query, area, results, loaded, found, notice, summary, error, drop, replace, search } = visitor(page);
  const load = () => button("Load all-MiniLM-L6-v2 (91 MB)").click();

  await test(`${where}: a click, a query, results`, async () => {
    await page.goto(`${server.url}/demo/search.html?device=cpu`);
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
    expect(await query.isDisabled(), "there is a query before a model");
    await load();
    await loaded();
    expect((await notice()) === "all-MiniLM-L6-v2 runs on the CPU, on one thread.", `the notice is ${await notice()}`);
    const pets = await search("pets");
    expect(pets.length === 10, `there are ${pets.length} results`);
    const first = pets.slice(0, 5);
    expect(first.every((piece) => animals.test(piece)), `the first results are ${first.join(" ")}`);
    const cosines = (await page.locator("#results li .time").allTextContents()).map(Number);
    expect(cosines[0] > 0.2 && cosines.every((one, n) => !n || one <= cosines[n - 1]), `the cosines are ${cosines}`);
    expect(/^\d+\.\d+ ms$/.test(await page.locator("#time").textContent()), "there is no time");
    expect((await page.locator("#summary").textContent()) === "The 10 best of 64 pieces", "the summary is another one");
    expect((await page.locator("#dimensions").textContent()) === "384 numbers", "the vector is another one");
    await page.screenshot({ path: join(out, `search-${where}.png`), fullPage: true });
  });

  await test(`${where}: queries in fast succession end with the last one's results`, async () => {
    await query.fill("");
    await summary("Type a query");
    expect((await results.count()) === 0, "an empty query has results");
    await query.pressSequentially("something to eat");
    await found("something to eat");
    const typed = await results.allTextContents();
    await search("bad weather");
    expect((await search("something to eat")).join() === typed.join(), "the results are of another query");
    await button("bad weather").click();
    await found("bad weather");
    const best = await results.first().textContent();
    expect(/storm|fog|raining/.test(best), `the first result is ${best}`);
    const { longest } = await page.evaluate(() => ({ longest: globalThis.longest }));
    console.log(`${where}: the page waited ${longest.toFixed(0)} ms at most`);
  });

  await test(`${where}: a result is shown in the text`, async () => {
    const piece = await results.first().textContent();
    await results.first().click();
    const selected = await area.evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd));
    expect(selected === piece, `${selected} is selected`);
  });

  await test(`${where}: another text, and none`, async () => {
    await area.fill('Paris is in France. "Berlin is in Germany!" Rome is in Italy\nA sparrow sings.\n\nA sparrow sings.');
    await page.waitForFunction(() => document.getElementById("pieces").textContent === "4");
    const birds = await search("birds");
    expect(birds.length === 4 && birds[0] === "A sparrow sings.", `the results are ${birds.join(" | ")}`);
    // The cosine of the query and the first piece is about -0.0004.
    await area.fill("The cat sleeps on the sofa.\nQuantum computers use qubits.");
    await page.waitForFunction(() => document.getElementById("pieces").textContent === "2");
    await search("baking");
    const shown = await page.locator("#results li:not([hidden])").allInnerTexts();
    expect(/\s0\.000$/.test(shown.at(-1).trim()), `the cosine is shown as ${shown.join()}`);
    // A text that changes during a search.
    await query.fill("the capital of Germany");
    await area.fill("Berlin has many lakes.");
    await summary("The best of 1 piece");
    expect((await results.allTextContents()).join() === "Berlin has many lakes.", "the results are of the old text");
    await area.fill(" \n ");
    await summary("There is no text to search.");
    expect((await results.count()) === 0, "an empty text has results");
    await button("Restore the example").click();
    await found("the capital of Germany");
    expect((await search("pets"))[0].length > 0, "there are no results");
    expect(await button("Restore the example").isDisabled(), "the example can be restored twice");
  });

  await test(`${where}: files with a text`, async () => {
    await drop("notes.txt", "The sky is blue.\nGrass is green.\n");
    await page.waitForFunction(() => document.getElementById("pieces").textContent === "2");
    expect((await search("lawn"))[0] === "Grass is green.", "the first result is another one");
    await page.locator("#file").setInputFiles({ name: "a.txt", mimeType: "", buffer: Buffer.from("One. Two. Three.") });
    await page.waitForFunction(() => document.getElementById("pieces").textContent === "3");
    await found("lawn");
    await drop("picture.txt", "\u0000\u0001");
    await error("picture.txt must be a text in UTF-8.");
    await page.locator("#file").setInputFiles({ name: "b.txt", mimeType: "", buffer: Buffer.alloc(5_500_000, "a ") });
    await error("b.txt must have at most 5 MB, got 6 MB.");
    expect((await area.inputValue()) === "One. Two. Three.", "the text is another one");
  });

  await test(`${where}: queries while a text of 10,000 lines is being read`, async () => {
    const lines = Array.from({ length: 10_000 }, (_, n) => `Item ${n} is ${n % 2 ? "a chair" : "a lamp"} of ${n % 97} euros`);
    lines.splice(5000, 0, "cat");
    await replace(lines.join("\n"));
    await page.waitForFunction(() => document.getElementById("pieces").textContent === "10,001");
    await page.waitForFunction(() => /^[\d,]+ of 10,001 pieces are ready, \d+ (s|min) left$/.test(
      document.getElementById("embedded-text").textContent,
    ));
    await query.fill("kitten");
    await page.waitForFunction(() => document.getElementById("results").dataset.query === "kitten");
    expect((await results.first().textContent()) === "cat", "the first result is another one");
    const words = await page.locator("#summary").textContent();
    expect(/^The 10 best of the [\d,]+ pieces that are ready$/.test(words), `the summary is ${words}`);
    await page.screenshot({ path: join(out, `search-embedding-${where}.png`), fullPage: true });
    // The page does not continue with the replaced text.
    await area.fill("The end.");
    await summary("The best of 1 piece");
    expect(await page.locator("#embedding").isHidden(), "the old text is still being read");
  });

  await test(`${where}: a model folder, one without a model, and an address`, async () => {
    await button("Close the model").click();
    await page.waitForFunction(() => document.getElementById("query").placeholder === "First load a model");
    await page.locator("#folder").setInputFiles(join(root, "www", "demo"));
    await error('the file "config.json" must be given');
    await page.locator("#folder").setInputFiles(folder);
    await loaded();
    expect((await notice()).startsWith("all-MiniLM-L6-v2 runs on "), `the notice is ${await notice()}`);
    await button("Restore the example").click();
    await page.waitForFunction(() => document.getElementById("pieces").textContent === "64");
    const pets = await search("pets");
    expect(animals.test(pets[0]), `the first result is ${pets[0]}`);
    await page.locator("#address").fill("http://[");
    await button("Load").click();
    await page.locator("#notice.error").waitFor();
    await page.locator("#address").fill(`${server.url}/models/all-MiniLM-L6-v2`);
    await button("Load").click();
    await loaded();
    expect(animals.test((await search("pets"))[0]), "the first result is another one");
  });

  await test(`${where}: a load is canceled`, async () => {
    await page.route("**/models/**", async (route) => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      await route.continue().catch(() => {}); // The page may have canceled the request.
    });
    await load();
    await page.waitForFunction(() => /^\d+ of 91 MB/.test(document.getElementById("progress-text").textContent));
    await page.screenshot({ path: join(out, `search-loading-${where}.png`), fullPage: true });
    await button("Cancel").click();
    await error("Loading was cancelled.");
    await page.unroute("**/models/**", { behavior: "ignoreErrors" });
    const left = consoleLines.filter((line) => !line.includes("/models/"));
    consoleLines.splice(0, consoleLines.length, ...left); // The canceled requests.
    await load();
    await loaded();
  });

  await test(`${where}: everything has a name, and nothing is wider than the screen`, async () => {
    await named(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(wide <= 0, `${wide} pixels are outside`);
  });
  await page.close();
}

await test("the search continues on a new device after a loss, and a loss without a new device is shown", async () => {
  const page = await browser.newPage();
  page.setDefaultTimeout(300_000);
  listen(page, consoleLines);
  const { button, area, loaded, error, search, query, found } = visitor(page);
  await page.goto(`${server.url}/demo/search.html?device=software`);
  await page.waitForFunction(() => window.demo);
  const [worker] = page.workers();
  await worker.evaluate(() => {
    const real = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...options) {
      return (globalThis.machine = await real.apply(this, options));
    };
  });
  await area.fill("A cow eats grass.\nThe shop opens at noon.");
  await button("Load all-MiniLM-L6-v2 (91 MB)").click();
  await loaded();
  expect((await search("cattle"))[0] === "A cow eats grass.", "the first result is another one");
  await worker.evaluate(() => globalThis.machine.destroy());
  expect((await search("business"))[0] === "The shop opens at noon.", "the first result after the loss is another one");
  await area.fill("A cow eats grass.\nThe shop opens at noon.\nRain falls.");
  await query.fill("weather");
  // The vectors of the new text are not ready at once.
  await page.waitForFunction(() => document.querySelector("#results li .piece")?.textContent === "Rain falls.");
  await worker.evaluate(() => {
    // In this worker only. The page starts another one after the loss.
    GPU.prototype.requestAdapter = async () => null;
    globalThis.machine.destroy();
  });
  await query.fill("animals");
  await error("The device was lost (");
  await page.screenshot({ path: join(out, "search-lost.png"), fullPage: true });
  expect(await query.isDisabled(), "there is still a query");
  await button("Load the model again").click();
  await loaded();
  await found("animals");
  await page.close();
});

await browser.close();
server.close();
// An embedder's folder need not have all files, and Chromium reports those that are missing.
const optional = /status of 404|\/models\/.*\/(config_sentence_transformers\.json|2_Dense\/)/;
await end(consoleLines.filter((line) => !optional.test(line)));
