// Tests of the demo's pages as a user sees them: named tests, checks of the console, and actions that all training pages share.

import { launch, openDemo, serve } from "../../tools/page.mjs";
import { finish } from "./browser.js";

const results = [];

/** Runs one test, which passes unless it throws. */
export async function test(name, body) {
  try {
    await body();
    results.push({ name });
    console.log(`ok      ${name}`);
  } catch (error) {
    results.push({ name, error: error.message });
  }
}

export function expect(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

/** Adds a page's console messages and failed requests to a list. */
export function listen(page, consoleLines) {
  page.on("console", (message) => consoleLines.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => consoleLines.push(`exception: ${error.message}`));
  page.on("requestfailed", (request) => {
    // If the CPU is chosen in the end, the request for the GPU's core is canceled.
    const left = /\/gpu[-\w]*\.wasm$/.test(request.url()) && request.failure()?.errorText === "net::ERR_ABORTED";
    if (!left) consoleLines.push(`not loaded: ${request.url()}`);
  });
}

/** Ends the process after the last test. Checks that the list of messages is empty. */
export async function end(consoleLines) {
  await test("the console stayed silent", () => expect(consoleLines.length === 0, [...new Set(consoleLines)].join("; ")));
  finish(results);
}

/**
 * Tests a page that trains on a large screen with WebGPU, and on a phone's with the CPU. Then ends the process. The function
 * gets the page, the name of the place, and `visit`, which opens a page of the demo.
 */
export async function testPage(body) {
  const server = await serve();
  const browser = await launch(["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]);
  const consoleLines = [];
  for (const [where, width, height, device] of [["desktop", 1180, 900, undefined], ["phone", 390, 844, "cpu"]]) {
    const context = await browser.newContext({ viewport: { width, height }, acceptDownloads: true });
    await context.grantPermissions(["camera"], { origin: server.url });
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    listen(page, consoleLines);
    await body(page, where, async (name) => {
      if (!device) return openDemo(page, server.url, name);
      await page.goto(`${server.url}/demo/${name}?device=${device}`);
      await opened(page);
    });
    await context.close();
  }
  await browser.close();
  server.close();
  await end(consoleLines);
}

/** Waits until a page shows its initial state. */
export async function opened(page) {
  await page.waitForFunction(() => window.demo);
  await page.evaluate(() => window.demo.ready.then(() => undefined));
}

export const text = (page, id) => page.locator(`#${id}`).textContent();
export const press = (page, name) => page.getByRole("button", { name, exact: true }).click();
export const steps = (page) => page.evaluate(() => window.demo.loop.steps);
/** Waits until the page has finished its work. */
export const untilIdle = (page) => page.evaluate(() => window.demo.loop.idle());

/** Trains until a condition holds in the page, at most a minute, at the maximum speed. */
export async function trainUntil(page, holds, argument) {
  await page.locator("#speed").selectOption({ label: "Maximum speed" });
  await press(page, "Start");
  try {
    // A busy machine learns slowly.
    await page.waitForFunction(holds, argument, { timeout: 240_000 });
  } finally {
    await press(page, "Pause");
    await untilIdle(page);
  }
}

/** Trains for `count` more steps. */
export async function trainFor(page, count) {
  await trainUntil(page, (end) => window.demo.loop.steps >= end, (await steps(page)) + count);
}

/** Checks that memory and counters do not grow from step to step. */
export async function stands(page, count, first = 100) {
  const stats = async () => {
    // Until a collection, values of parameters that the page displayed are held.
    await page.requestGC();
    await page.waitForTimeout(100);
    return page.evaluate(() => window.demo.stats());
  };
  await trainFor(page, first);
  const before = await stats();
  await trainFor(page, count);
  const after = await stats();
  const limits = { plans: 1, pipelines: 1, bytes: 1.1, usedBytes: 1.1, nodes: 1.1 };
  for (const [name, times] of Object.entries(limits)) {
    expect(after[name] <= times * before[name], `${name}: ${before[name]}, then ${after[name]}`);
  }
}

/**
 * Tests the comparison of speed between the page's device and the CPU. The figures are cleared for another net, and no memory
 * remains.
 */
export async function timed(page) {
  await untilIdle(page);
  const held = () => page.evaluate(() => window.demo.stats().nodes);
  const before = await held();
  await press(page, "Compare speed with the CPU");
  await page.waitForFunction(() => /\d steps per second/.test(document.getElementById("cpu-speed").textContent));
  const [own, cpu] = [await text(page, "device-speed"), await text(page, "cpu-speed")].map(Number.parseFloat);
  expect(own > 0 && cpu > 0, `${own} and ${cpu}`);
  await untilIdle(page);
  // A leftover net would have more nodes.
  expect((await held()) <= before + 3, `${await held()} nodes, ${before} before`);
  await press(page, "Reset");
  await untilIdle(page);
  expect((await text(page, "cpu-speed")) === "–", "the figures are of another net");
}

/** Checks that all controls have a name. */
export async function named(page) {
  const nameless = await page.evaluate(() => {
    const controls = [...document.querySelectorAll("button, input, select, canvas, [role=img]")];
    const named = (one) =>
      one.ariaLabel || one.getAttribute("aria-labelledby") || one.labels?.length || one.textContent.trim();
    return controls.filter((one) => !named(one)).map((one) => one.outerHTML);
  });
  expect(nameless.length === 0, nameless.join(" "));
}

/** Checks that all controls have a name, and that nothing is wider than the screen. */
export async function wellMade(page) {
  await named(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(wide <= page.viewportSize().width, `the page is ${wide} wide`);
}
