// Tests the demo page as a user does: every filter and button, files, the keyboard, and an empty console.
//
// Prints `N passed, M failed`.

import { check } from "../tools/demo.mjs";
import { launch, openDemo, serve } from "../tools/page.mjs";
import { hash, picture } from "../demo/picture.js";
import { end, expect, listen, named, test } from "./support/demo.js";
import { discPng } from "./support/png.js";

const server = await serve();
const browser = await launch(["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]);
const context = await browser.newContext({ viewport: { width: 1180, height: 900 } });
await context.grantPermissions(["camera"], { origin: server.url });
const page = await context.newPage();
page.setDefaultTimeout(60_000);

const consoleLines = [];
listen(page, consoleLines);

/** Returns a digest of a canvas, and the fraction that differs from its first pixel. */
const look = (id) =>
  page.evaluate((id) => {
    const canvas = document.getElementById(id);
    const { width, height } = canvas;
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, width, height);
    let digest = 0;
    let other = 0;
    for (let i = 0; i < data.length; i += 4) {
      for (let j = 0; j < 3; j++) digest = (Math.imul(digest, 31) + data[i + j]) | 0;
      other += data[i] !== data[0] || data[i + 1] !== data[1] || data[i + 2] !== data[2];
    }
    return { digest, varied: other / (width * height), width, height };
  }, id);

/** Waits until the page has processed the last change: both images are updated and checked. */
async function untilIdle() {
  await page.evaluate(() => window.demo.idle());
}

/** Checks that the verdict on the image or the attention block is good. */
async function verdict(id) {
  const element = page.locator(`#${id}`);
  const [text, kind] = [await element.textContent(), await element.getAttribute("class")];
  expect(kind.includes("good"), `the verdict is: ${text}`);
}

/** Checks that both canvases show an image other than the one with the digest `before`. */
async function shown(before) {
  await untilIdle();
  const [gpu, cpu] = [await look("gpu-canvas"), await look("cpu-canvas")];
  expect(gpu.varied > 0.02, `the device's picture is blank: ${JSON.stringify(gpu)}`);
  expect(cpu.varied > 0.02, `the CPU's picture is blank: ${JSON.stringify(cpu)}`);
  expect(gpu.digest !== before, "the picture did not change");
  await verdict("image-difference");
  return gpu;
}

const button = (name) => page.getByRole("button", { name, exact: true });
const preset = (name) => page.locator(`[data-preset="${name}"]`).click();
const names = () => page.locator("#chain li").evaluateAll((items) => items.map((item) => item.dataset.filter));

await test("the page opens and computes", async () => {
  const fallback = await openDemo(page, server.url);
  if (fallback) console.log(`        (${fallback}; tested on WebGPU in software)`);
  await shown(undefined);
});

await test("the picture's pixels are those that the native demo makes", () => {
  const { width, height, pixels } = { width: 480, height: 320, pixels: picture(480, 320) };
  expect(hash(pixels) === 83052090, `the hash of ${width} by ${height} is ${hash(pixels)}`);
});

await test("the figures are right", async () => {
  const figures = await page.evaluate(() => window.demo.figures());
  const wrong = check([figures]);
  expect(wrong.length === 0, wrong.join("; "));
  expect(figures.devices.every(({ image, attention }) => image.ms > 0 && attention.ms > 0), "a time is missing");
});

const filters = await page.locator("#add button").evaluateAll((all) => all.map((one) => one.dataset.filter));
await test("there are filters", () => expect(filters.length >= 10, `only ${filters.length}`));
for (const filter of filters) {
  await test(`filter ${filter}`, async () => {
    await preset("Nothing");
    const plain = await shown(undefined);
    await page.locator(`#add [data-filter="${filter}"]`).click();
    const filtered = await shown(plain.digest);
    const slider = page.locator("#chain input");
    if ((await slider.count()) === 0) return;
    await slider.focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await shown(filtered.digest);
  });
}

for (const name of ["Pencil", "Dusk", "Mist", "Relief", "Neon", "Crisp"]) {
  await test(`chain ${name}`, async () => {
    await preset("Nothing");
    const plain = await shown(undefined);
    await preset(name);
    await shown(plain.digest);
  });
}

await test("the order of the chain counts, and can be changed and undone", async () => {
  await preset("Nothing");
  await page.locator('#add [data-filter="contrast"]').click();
  await page.locator('#add [data-filter="edges"]').click();
  const one = await shown(undefined);
  await button("Move Edges up").click();
  expect((await names()).join() === "edges,contrast", `the chain is ${await names()}`);
  const other = await shown(one.digest);
  await button("Move Edges down").click();
  const back = await shown(other.digest);
  expect(back.digest === one.digest, "the same chain gives another picture");
  await button("Remove Contrast").click();
  expect((await names()).join() === "edges", `the chain is ${await names()}`);
  await shown(back.digest);
});

await test("a run is profiled and drawn", async () => {
  await preset("Dusk");
  await untilIdle();
  await button("Profile a run").click();
  await page.locator("#profile-kernels tr").first().waitFor();
  await untilIdle();
  const kernels = await page.locator("#profile-kernels tr").count();
  const [drawn, submissions] = [page.locator("#timeline [data-span=kernel]"), page.locator("#timeline [data-span=submission]")];
  const summary = await page.locator("#profile-summary").textContent();
  expect(/timestamps, in steps of/.test(summary), `the clock is: ${summary}`);
  expect(kernels > 0 && (await drawn.count()) >= kernels, `${await drawn.count()} spans of ${kernels} kernels`);
  expect((await submissions.count()) === 1, `${await submissions.count()} submissions`);
  const boxes = await drawn.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width));
  expect(boxes.every((width) => width > 0), `spans are ${boxes} wide`);
});

await test("a slider makes no new plan and no new pipeline", async () => {
  await preset("Dusk");
  await untilIdle();
  const counters = () =>
    page.locator("[data-counter]").evaluateAll((cells) =>
      Object.fromEntries(cells.map((cell) => [cell.dataset.counter, Number(cell.textContent.replaceAll(",", ""))])),
    );
  const before = await counters();
  await page.locator("#chain input").first().focus();
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowLeft");
  await untilIdle();
  const after = await counters();
  expect(after.submits > before.submits, "nothing was computed");
  for (const name of ["plans", "pipelines"]) expect(after[name] === before[name], `${name} grew`);
});

await test("another size", async () => {
  await preset("Pencil");
  await page.locator("#size").selectOption("960");
  const { width, height } = await shown(undefined);
  expect(width === 960 && height === 640, `it is ${width} by ${height}`);
  await page.locator("#size").selectOption("480");
  await shown(undefined);
});

await test("a picture from a file", async () => {
  await preset("Nothing");
  const own = await shown(undefined);
  const file = { name: "disc.png", mimeType: "image/png", buffer: discPng(300, 201) };
  await page.locator("#file").setInputFiles(file);
  await page.waitForFunction(() => document.getElementById("cpu-canvas").width === 300);
  const { width, height } = await shown(own.digest);
  expect(width === 300 && height === 201, `it is ${width} by ${height}`);
  const middle = await page.evaluate(() => {
    const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    copy.drawImage(document.getElementById("gpu-canvas"), -150, -100);
    return [...copy.getImageData(0, 0, 1, 1).data];
  });
  expect(middle.join() === "220,40,30,255", `the middle of the disc is ${middle}`);
});

await test("a file that is no picture is refused, and the page goes on", async () => {
  await page.locator("#file").setInputFiles({ name: "no.png", mimeType: "image/png", buffer: Buffer.from("no") });
  await page.locator("#notice.error").waitFor();
  await preset("Crisp");
  await untilIdle();
  await page.locator("#notice.error").waitFor({ state: "hidden" });
  await verdict("image-difference");
});

await test("the camera", async () => {
  await button("Camera").click();
  await button("Stop the camera").waitFor();
  await page.waitForFunction(() => document.getElementById("gpu-canvas").width === 640);
  const first = (await look("gpu-canvas")).digest;
  const frames = await page.evaluate(() => window.demo.frames);
  await page.waitForFunction((frames) => window.demo.frames > frames + 5, frames);
  const live = await look("gpu-canvas");
  expect(live.varied > 0.02 && live.digest !== first, "the picture stands still");
  await button("Stop the camera").click();
  await shown(undefined);
});

await test("attention: causal or not, heads, another sentence", async () => {
  const cells = () => page.locator("#heat td[title]").evaluateAll((all) => all.map((cell) => cell.title));
  const share = (title) => Number(title.match(/([\d.]+) %$/)[1]);
  await untilIdle();
  const words = 12;
  const causal = await cells();
  expect(causal.length === words * words, `${causal.length} cells`);
  expect(causal.every((title, i) => i % words <= Math.trunc(i / words) || share(title) === 0), "a word sees the future");
  await page.getByLabel("Causal").uncheck();
  await untilIdle();
  await verdict("attention-difference");
  const all = await cells();
  expect(all.some((title, i) => i % words > Math.trunc(i / words) && share(title) > 1), "no word sees the future");
  for (let row = 0; row < words; row++) {
    const sum = all.slice(row * words, (row + 1) * words).reduce((sum, title) => sum + share(title), 0);
    expect(Math.abs(sum - 100) < 1, `row ${row} sums to ${sum} %`);
  }
  await page.locator("#head").selectOption("2");
  expect((await cells()).join() !== all.join(), "two heads look alike");
  await page.locator("#sentence").fill("a rose is a rose is a rose");
  await untilIdle();
  await verdict("attention-difference");
  expect((await cells()).length === 64, `${(await cells()).length} cells`);
  await page.locator("#sentence").fill("");
  await untilIdle();
  await page.locator("#sentence").fill("alone");
  await untilIdle();
  expect((await cells()).join() === "alone attends to alone: 100.0 %", `${await cells()}`);
});

await test("the plan and the kernels are shown", async () => {
  await preset("Pencil");
  await untilIdle();
  await button("Image").click();
  const plan = await page.locator("#plan").textContent();
  expect(/\d+ kernels/.test(plan) && plan.includes("conv2d"), `the plan is: ${plan}`);
  const kernel = page.locator("#kernels details").first();
  await kernel.locator("summary").click();
  const source = await kernel.locator("pre").textContent();
  expect(await kernel.locator("pre").isVisible(), "the kernel's text stays hidden");
  expect(source.includes("@compute"), `the text of a kernel is: ${source.slice(0, 200)}`);
  await button("Attention").click();
  // Attention, or matmuls and a softmax on a software GPU.
  const attention = await page.locator("#plan").textContent();
  expect(attention !== plan && /attention|matmul/.test(attention), `the plan of attention is: ${attention}`);
  const about = await page.locator("#about").textContent();
  expect(about.includes("webgpu"), `the device is: ${about}`);
});

await test("everything has a name for those who do not see it", () => named(page));

await test("a phone shows it all without scrolling aside", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  expect(wide <= 360, `the page is ${wide} wide`);
  await page.setViewportSize({ width: 1180, height: 900 });
});

await test("the CPU can be chosen, and says what it is", async () => {
  await page.goto(`${server.url}/demo/?device=cpu`);
  await page.waitForFunction(() => window.demo);
  await page.evaluate(() => window.demo.ready);
  await shown(undefined);
  const about = await page.locator("#about").textContent();
  expect(about.includes("cpu"), `the device is: ${about}`);
});

await test("a device that is not there is an error that can be read", async () => {
  await page.goto(`${server.url}/demo/?device=no-such-device`);
  const notice = page.locator("#notice.error");
  await notice.waitFor();
  expect((await notice.textContent()).includes("no-such-device"), await notice.textContent());
  const about = consoleLines.findIndex((line) => line.includes("no-such-device"));
  if (about >= 0) consoleLines.splice(about, 1); // The expected exception.
});

await browser.close();
server.close();
await end(consoleLines);
