// Tests the demo page of handwritten digits: a net that learns, digits by the mouse, and weights as files.
//
// Prints `N passed, M failed`.

import { readFileSync } from "node:fs";
import { drawings as drawn } from "../demo/strokes.js";
import { expect, opened, press, stands, steps, test, testPage, untilIdle } from "./support/demo.js";
import { text, timed, trainFor, trainUntil, wellMade } from "./support/demo.js";

/** The number of test images of each digit: NumPy's `bincount(labels[::5])`. */
const imagesOf = [42, 28, 26, 48, 38, 39, 30, 26, 36, 47];

/** Returns points of a curve, for digits as lines on the pad, from 0 to 1. */
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
  await untilIdle(page);
  return text(page, "guess");
}

/** Returns the weights that the page saves. */
async function download(page) {
  const [file] = await Promise.all([page.waitForEvent("download"), press(page, "Save weights")]);
  expect(file.suggestedFilename() === "digits.safetensors", `it is called ${file.suggestedFilename()}`);
  return readFileSync(await file.path());
}

/** Chooses data of the page, and the style of drawn ones. */
async function choose(page, chosen) {
  for (const [id, value] of Object.entries(chosen)) await page.locator(`#${id}`).selectOption(value);
  await untilIdle(page);
}

/** Returns the numbers of the confusion table, row by row. */
const confusion = (page) =>
  page.locator("#confusion td").evaluateAll((all) => all.map((cell) => Number(cell.textContent)));
/** Returns the number of test images of each digit. */
const rowSums = (cells) => imagesOf.map((_, digit) => cells.slice(10 * digit, 10 * digit + 10).reduce((sum, n) => sum + n, 0));

/** Returns the 64 numbers of an image. */
const image = ({ pixels }, n) => pixels.subarray(64 * n, 64 * (n + 1));
const distance = (a, b) => Math.hypot(...a.map((x, n) => x - b[n]));

/** Returns how far an image's ink moves to the right for each step up: the slope of its regression. */
function lean(pixels) {
  const weighted = (value) => pixels.reduce((sum, ink, n) => sum + ink * value(n % 8, n >> 3), 0);
  const all = weighted(() => 1);
  const [x, y] = [weighted((x) => x) / all, weighted((_, y) => y) / all];
  return -weighted((u, v) => (u - x) * (v - y)) / weighted((_, v) => (v - y) ** 2);
}

await test("drawn digits are sixteenths, and their seed's", () => {
  const look = { slant: 20, noise: 0.02 };
  const one = drawn(200, 7, look);
  expect(one.pixels.length === 64 * 200 && one.digits.length === 200, `${one.pixels.length} numbers`);
  const odd = one.pixels.filter((ink) => !(ink >= 0 && ink <= 1 && Number.isInteger(16 * ink)));
  expect(odd.length === 0, `numbers of them: ${odd.slice(0, 5)}`);
  const inks = Array.from(one.digits, (_, n) => image(one, n).reduce((sum, ink) => sum + ink, 0));
  expect(Math.min(...inks) > 5 && Math.max(...inks) < 40, `ink from ${Math.min(...inks)} to ${Math.max(...inks)} of 64`);
  expect(distance(one.pixels, drawn(200, 7, look).pixels) === 0, "a seed gives other images when it is used again");
  const [clean, other] = [7, 8].map((seed) => drawn(200, seed, { ...look, noise: 0 }));
  const alike = inks.filter((_, n) => distance(image(clean, n), image(other, n)) === 0);
  expect(alike.length === 0, `another seed gives ${alike.length} of the same images`);
});

await test("each drawn digit differs from the others", () => {
  const [one, other] = [1, 2].map((seed) => drawn(400, seed, { slant: 0, noise: 0 }));
  const means = imagesOf.map((_, digit) => {
    const own = [...one.digits.keys()].filter((n) => one.digits[n] === digit);
    return new Float32Array(64).map((_, at) => own.reduce((sum, n) => sum + image(one, n)[at], 0) / own.length);
  });
  const nearest = (pixels) => {
    const all = means.map((mean) => distance(mean, pixels));
    return all.indexOf(Math.min(...all));
  };
  const right = imagesOf.map((_, digit) => {
    const own = [...other.digits.keys()].filter((n) => other.digits[n] === digit);
    return own.filter((n) => nearest(image(other, n)) === digit).length / own.length;
  });
  expect(Math.min(...right) > 0.6, `nearest to the mean of their own: ${right}`);
});

await test("drawn digits lean and are noisy as they are told", () => {
  const plain = drawn(500, 3, { slant: 0, noise: 0 });
  for (const [slant, most] of [[10, 0.26], [40, 0.95]]) {
    const leaning = drawn(500, 3, { slant, noise: 0 });
    const leans = Array.from(plain.digits, (_, n) => lean(image(leaning, n)) - lean(image(plain, n)));
    const [low, high] = [Math.min(...leans), Math.max(...leans)];
    expect(low > -most && high < most, `up to ${slant} degrees: from ${low} to ${high}`);
    const half = Math.tan((Math.PI / 180) * slant) * 0.75;
    expect(low < -half && high > half, `up to ${slant} degrees: only from ${low} to ${high}`);
  }
  for (const noise of [0.02, 0.1]) {
    const noisy = drawn(500, 3, { slant: 0, noise });
    for (const [ink, wanted] of [[0, noise], [1, 1 - noise]]) {
      const those = noisy.pixels.filter((_, n) => plain.pixels[n] === ink);
      const mean = those.reduce((sum, x) => sum + x, 0) / those.length;
      expect(Math.abs(mean - wanted) < 0.005, `noise of ${noise} makes ${mean} of ${ink}`);
    }
  }
});

await testPage(async (page, where, visit) => {
  await test(`${where}: digits that nobody has learnt yet`, async () => {
    await visit("train.html");
    await page.getByRole("link", { name: "Handwritten digits" }).click();
    await page.waitForURL("**/digits.html");
    await opened(page);
    await visit("digits.html");
    expect(Number.parseFloat(await text(page, "accuracy")) < 50, `${await text(page, "accuracy")} are right by chance`);
    const rows = rowSums(await confusion(page));
    expect(rows.join() === imagesOf.join(), `the images of each digit: ${rows}`);
    expect((await text(page, "code")).includes("Layer.conv2d("), "the code is not shown");
  });

  await test(`${where}: digits are learnt`, async () => {
    await trainUntil(page, () => window.demo.accuracy > 0.94);
    const cells = await confusion(page);
    const right = imagesOf.reduce((sum, _, digit) => sum + cells[11 * digit], 0);
    expect(right > 0.9 * 360, `${right} of 360 are right`);
    const shown = await text(page, "accuracy");
    expect(shown === `${((100 * right) / 360).toFixed(1)} %`, `it says ${shown}, and ${right} of 360 are right`);
    const misread = await text(page, "misread-count");
    expect(misread === `${360 - right} of 360 test images are misclassified`, `it says: ${misread}`);
  });

  await test(`${where}: nothing grows by two hundred steps`, () => stands(page, 200));

  await test(`${where}: what is drawn is read`, async () => {
    const guess = await draw(page, drawings[0]);
    expect(guess === "0", `a nought is read as ${guess}`);
    await press(page, "Show a test image");
    await untilIdle(page);
    expect(/^\d$/.test(await text(page, "guess")), `a test image is read as ${await text(page, "guess")}`);
    await press(page, "Clear");
    await untilIdle(page);
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
    await untilIdle(page);
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
    await press(page, "Load trained weights");
    await page.waitForFunction(() => window.demo.accuracy > 0.97);
    await page.locator("#notice.error").waitFor({ state: "hidden" });
    const read = [];
    for (const [digit, lines] of Object.entries(drawings)) read.push(`${digit} as ${await draw(page, lines)}`);
    const wrong = read.filter((pair) => pair[0] !== pair.at(-1));
    expect(wrong.length <= 1, `misread: ${wrong.join("; ")}`);
    await trainFor(page, 20);
    await wellMade(page);
  });

  await test(`${where}: drawn digits are learnt`, async () => {
    await choose(page, { data: "drawn" });
    expect((await steps(page)) === 0 && Number.parseFloat(await text(page, "accuracy")) < 50, "the net is not a new one");
    const rows = rowSums(await confusion(page));
    expect(rows.every((count) => count === 36), `the images of each digit: ${rows}`);
    await trainUntil(page, () => window.demo.accuracy > 0.95);
    await wellMade(page);
    await choose(page, { slant: "40" });
    expect((await steps(page)) === 0, "another slant is not a new net");
  });

  await test(`${where}: drawn digits are read by a net of real ones`, async () => {
    await choose(page, { slant: "0", noise: "0" });
    await press(page, "Load trained weights");
    await page.waitForFunction(() => window.demo.accuracy > 0.85);
  });

  await test(`${where}: both are learnt, and shown`, async () => {
    await choose(page, { data: "both" });
    const [rows, all] = [rowSums(await confusion(page)), await text(page, "tested")];
    expect(rows.join() === imagesOf.map((count) => count + 36).join() && all === "720", `of each digit: ${rows}; of ${all}`);
    const shown = await page.locator("#examples figure").evaluateAll((figures) =>
      figures.map((figure) => {
        const { data } = figure.querySelector("canvas").getContext("2d").getImageData(0, 0, 8, 8);
        return { caption: figure.textContent, ink: Array.from({ length: 64 }, (_, n) => data[4 * n + 3] / 255) };
      }),
    );
    const digits = shown.map(({ caption }) => caption).join("");
    expect(digits === "01234567890123456789", `the images shown: ${digits}`);
    // The last ten are the last drawn ones.
    const wanted = drawn(1440, 1, { slant: 0, noise: 0 });
    const far = shown.map(({ ink }, n) => distance(ink, image(wanted, 1420 + n)));
    expect(far.every((far, n) => far < 0.1 === n >= 10), `how far they are from drawn ones: ${far}`);
    // Data that are no longer chosen are freed for the next.
    const bytes = async (times) => {
      for (let n = 0; n < 3 * times; n++) await choose(page, { data: ["written", "drawn", "both"][n % 3] });
      return page.evaluate(() => window.demo.stats().bytes);
    };
    const [once, often] = [await bytes(1), await bytes(3)];
    expect(often <= 1.05 * once, `${once} bytes are held, and after more choices ${often}`);
    const idle = async () => Promise.all(["slant", "noise"].map((id) => page.locator(`#${id}`).isDisabled()));
    expect((await idle()).join() === "false,false", "they cannot be chosen");
    await choose(page, { data: "written" });
    expect((await idle()).join() === "true,true", "they can be chosen for digits that are not drawn");
  });

  await test(`${where}: steps a second, beside the CPU's`, () => timed(page));
});
