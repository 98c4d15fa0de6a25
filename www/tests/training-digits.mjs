// The demo page of handwritten digits: a net that learns, digits by the mouse, and weights as files.
//
// Prints `N passed, M failed`.

import { readFileSync } from "node:fs";
import { expect, opened, press, settled, stands, test, testPage } from "./support/demo.js";
import { text, trainFor, trainUntil, wellMade } from "./support/demo.js";

/** How many of the test images are of each digit: NumPy's `bincount(labels[::5])`. */
const imagesOf = [42, 28, 26, 48, 38, 39, 30, 26, 36, 47];

/** Digits as lines on the pad, from 0 to 1. */
const round = (x, y, wide, high, from = 0, to = 1) =>
  Array.from({ length: 25 }, (_, n) => {
    const angle = 2 * Math.PI * (from + ((to - from) * n) / 24);
    return [x + wide * Math.sin(angle), y - high * Math.cos(angle)];
  });
const drawings = {
  0: [round(0.5, 0.5, 0.2, 0.32)],
  1: [[[0.4, 0.35], [0.52, 0.18], [0.52, 0.82]]],
  2: [[...round(0.5, 0.33, 0.18, 0.16, -0.2, 0.35), [0.32, 0.8], [0.72, 0.8]]],
  3: [[...round(0.47, 0.34, 0.18, 0.16, -0.15, 0.5), ...round(0.47, 0.66, 0.2, 0.16, 0, 0.65)]],
  4: [[[0.5, 0.15], [0.28, 0.58], [0.75, 0.58]], [[0.6, 0.4], [0.6, 0.85]]],
  6: [[[0.6, 0.15], [0.42, 0.35], [0.35, 0.6], ...round(0.5, 0.65, 0.15, 0.17, 0.75, 1.75)]],
  7: [[[0.28, 0.2], [0.72, 0.2], [0.45, 0.82]], [[0.35, 0.52], [0.68, 0.52]]],
};

/** Draws lines on the pad with the mouse. */
async function draw(page, lines) {
  await press(page, "Clear");
  const pad = page.locator("#pad");
  await pad.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await pad.boundingBox();
  for (const line of lines) {
    const [first, ...others] = line.map(([u, v]) => [x + u * width, y + v * height]);
    await page.mouse.move(...first);
    await page.mouse.down();
    for (const place of others) await page.mouse.move(...place);
    await page.mouse.up();
  }
  await settled(page);
  return text(page, "guess");
}

/** The weights that the page hands out. */
async function download(page) {
  const [file] = await Promise.all([page.waitForEvent("download"), press(page, "Save the weights")]);
  expect(file.suggestedFilename() === "digits.safetensors", `it is called ${file.suggestedFilename()}`);
  return readFileSync(await file.path());
}

await testPage(async (page, where, visit) => {
  await test(`${where}: digits that nobody has learnt yet`, async () => {
    await visit("train.html");
    await page.getByRole("link", { name: "Handwritten digits" }).click();
    await page.waitForURL("**/digits.html");
    await opened(page);
    await visit("digits.html");
    expect(Number.parseFloat(await text(page, "accuracy")) < 50, `${await text(page, "accuracy")} are right by chance`);
    const cells = await page.locator("#confusion td").evaluateAll((all) => all.map((cell) => Number(cell.textContent)));
    const rows = imagesOf.map((_, digit) => cells.slice(10 * digit, 10 * digit + 10).reduce((sum, n) => sum + n, 0));
    expect(rows.join() === imagesOf.join(), `the images of each digit: ${rows}`);
    expect((await text(page, "code")).includes("Layer.conv2d("), "the code is not shown");
  });

  await test(`${where}: digits are learnt`, async () => {
    await trainUntil(page, () => window.demo.accuracy > 0.94);
    const cells = await page.locator("#confusion td").evaluateAll((all) => all.map((cell) => Number(cell.textContent)));
    const right = imagesOf.reduce((sum, _, digit) => sum + cells[11 * digit], 0);
    expect(right > 0.9 * 360, `${right} of 360 are right`);
    const shown = await text(page, "accuracy");
    expect(shown === `${((100 * right) / 360).toFixed(1)} %`, `it says ${shown}, and ${right} of 360 are right`);
    const misread = await text(page, "misread-count");
    expect(misread === `${360 - right} of 360 are misread`, `it says: ${misread}`);
  });

  await test(`${where}: nothing grows by two hundred steps`, () => stands(page, 200));

  await test(`${where}: what is drawn is read`, async () => {
    const guess = await draw(page, drawings[0]);
    expect(guess === "0", `a nought is read as ${guess}`);
    await press(page, "A test image");
    await settled(page);
    expect(/^\d$/.test(await text(page, "guess")), `a test image is read as ${await text(page, "guess")}`);
    await press(page, "Clear");
    await settled(page);
    expect((await text(page, "guess")) === "?", "an empty pad is read");
  });

  await test(`${where}: weights are saved and loaded`, async () => {
    const file = await download(page);
    const header = JSON.parse(file.subarray(8, 8 + Number(file.readBigUInt64LE(0))).toString());
    const { __metadata__: notes, ...tensors } = header;
    const shapes = Object.fromEntries(Object.entries(tensors).map(([name, { shape }]) => [name, shape.join()]));
    const wanted = { "0.weight": "8,1,3,3", "2.weight": "16,8,3,3", "6.weight": "64,256", "8.weight": "10,64" };
    for (const [name, shape] of Object.entries(wanted)) {
      const [own, bias] = [shapes[name], shapes[name.replace("weight", "bias")]];
      expect(own === shape && bias === shape.split(",")[0], `${name}: ${own} and ${bias}`);
    }
    expect(Object.keys(shapes).length === 8 && JSON.parse(notes.architecture).net === "digits", JSON.stringify(header));
    const learnt = await text(page, "accuracy");
    await press(page, "Reset");
    await settled(page);
    expect((await text(page, "accuracy")) !== learnt, "the net is not a new one");
    const kind = { name: "d.safetensors", mimeType: "application/octet-stream" };
    const upload = (buffer) => page.locator("#file").setInputFiles({ ...kind, buffer });
    await upload(file);
    await page.waitForFunction((learnt) => document.getElementById("accuracy").textContent === learnt, learnt);
    expect((await download(page)).equals(file), "the same weights are another file");
    await upload(Buffer.from("no weights"));
    await page.locator("#notice.error").waitFor();
    expect((await text(page, "accuracy")) === learnt, "a bad file changed the net");
  });

  await test(`${where}: weights that were trained natively`, async () => {
    await press(page, "Take trained weights");
    await page.waitForFunction(() => window.demo.accuracy > 0.97);
    await page.locator("#notice.error").waitFor({ state: "hidden" });
    const read = [];
    for (const [digit, lines] of Object.entries(drawings)) read.push(`${digit} as ${await draw(page, lines)}`);
    const wrong = read.filter((pair) => pair[0] !== pair.at(-1));
    expect(wrong.length <= 1, `misread: ${wrong.join("; ")}`);
    await trainFor(page, 20);
    await wellMade(page);
  });
});
