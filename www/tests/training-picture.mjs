// Tests the demo page of an image: a neural field that learns it, other images by file and camera, and values between the
// pixels.
//
// Prints `N passed, M failed`.

import { expect, press, stands, steps, test, testPage, text, untilIdle } from "./support/demo.js";
import { timed, trainFor, trainUntil, wellMade } from "./support/demo.js";
import { discPng } from "./support/png.js";

/** The quality after some seconds in decibels: at least 33 after 200 steps. An untrained net has 10. */
const learnt = 30;

/** Returns the colors in the centers of `side` x `side` cells of a canvas: red, green and blue from 0 to 1. */
const cells = (page, id, side) =>
  page.evaluate(([id, side]) => {
    const canvas = document.getElementById(id);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data, width } = copy.getImageData(0, 0, canvas.width, canvas.height);
    return Array.from({ length: 3 * side * side }, (_, n) => {
      const [column, row] = [Math.trunc(n / 3) % side, Math.trunc(n / 3 / side)];
      const [x, y] = [column, row].map((at) => Math.trunc(((at + 0.5) * width) / side));
      return data[4 * (y * width + x) + (n % 3)] / 255;
    });
  }, [id, side]);

/** Returns the mean squared difference of two canvases. */
async function apart(page, a, b, side) {
  const [one, other] = [await cells(page, a, side), await cells(page, b, side)];
  return one.reduce((sum, value, n) => sum + (value - other[n]) ** 2, 0) / one.length;
}

const likeness = (page) => page.evaluate(() => window.demo.psnr);
const choose = (page, id, value) => page.locator(`#${id}`).selectOption(value);
const slide = (page, id, value) => page.locator(`#${id}`).fill(`${value}`);

await testPage(async (page, where, visit) => {
  await test(`${where}: a picture, and a net that does not know it`, async () => {
    await visit("field.html");
    expect((await likeness(page)) < 16, `an untrained net has ${await likeness(page)} dB`);
    await press(page, "Step");
    await untilIdle(page);
    expect((await steps(page)) === 1 && (await text(page, "steps")) === "1", `${await text(page, "steps")} steps`);
    expect(/^0\.\d{5}$/.test(await text(page, "loss")), `the loss is ${await text(page, "loss")}`);
    // Sines and cosines of 64 waves, two layers of 64 neurons, three colors.
    const parameters = 128 * 64 + 64 + 64 * 64 + 64 + 64 * 3 + 3;
    const shown = await text(page, "parameters");
    expect(shown === `${parameters.toLocaleString("en")} parameters`, `it has ${shown}`);
    expect((await text(page, "code")).includes("places.matmul("), "the code is not shown");
  });

  await test(`${where}: the picture is learnt`, async () => {
    await trainUntil(page, (learnt) => window.demo.psnr > learnt, learnt);
    const shown = Number.parseFloat(await text(page, "psnr"));
    // Compares the drawn canvases. The frame around a part is on both.
    const side = Number.parseInt(await text(page, "pixels"), 10);
    const drawn = -10 * Math.log10(await apart(page, "original", "learnt", side));
    expect(shown > learnt && Math.abs(shown - drawn) < 1.5, `it says ${shown} dB, and the pictures have ${drawn}`);
  });

  await test(`${where}: nothing grows by a hundred steps`, () => stands(page, 100, 20));

  await test(`${where}: pause, step and reset`, async () => {
    const paused = await steps(page);
    await page.waitForTimeout(300);
    expect((await steps(page)) === paused, "it goes on in the pause");
    await press(page, "Step");
    await untilIdle(page);
    expect((await steps(page)) === paused + 1, "a step is another number of them");
    await press(page, "Reset");
    await untilIdle(page);
    expect((await steps(page)) === 0 && (await likeness(page)) < 16, `anew it has ${await likeness(page)} dB`);
  });

  await test(`${where}: between the pixels`, async () => {
    await trainUntil(page, () => window.demo.psnr > 26);
    for (const [across, down] of [[0, 0], [100, 0], [30, 100]]) {
      await slide(page, "across", across);
      await slide(page, "down", down);
      await untilIdle(page);
      // The net's image is finer. Each of its pixels is close to the image's pixel that contains it.
      const error = await apart(page, "original-part", "learnt-part", 16);
      expect(error < 0.03, `${across}, ${down}: ${error}`);
    }
    const canvas = page.locator("#learnt");
    await canvas.scrollIntoViewIfNeeded();
    const { width } = await canvas.boundingBox();
    await canvas.click({ position: { x: 0.25 * width, y: 0.5 * width } });
    await untilIdle(page);
    const at = await Promise.all(["across", "down"].map((id) => page.locator(`#${id}`).inputValue()));
    // (0.25 - 0.125) / 0.75 and (0.5 - 0.125) / 0.75, of 100.
    expect(Math.abs(at[0] - 16.7) < 2 && Math.abs(at[1] - 50) < 2, `a click is at ${at}`);
  });

  await test(`${where}: Fourier features show it the fine things`, async () => {
    await choose(page, "picture", "threads");
    await untilIdle(page);
    await trainFor(page, 60);
    const featured = await likeness(page);
    await choose(page, "frequencies", "0");
    await untilIdle(page);
    expect(await page.locator("#sharpness").isDisabled(), "without waves there is no frequency");
    await trainFor(page, 60);
    const plain = await likeness(page);
    expect(featured > plain + 3, `${featured} dB with them, ${plain} dB without`);
    await choose(page, "frequencies", "32");
  });

  await test(`${where}: other nets, rules and pictures`, async () => {
    const choices = { layers: "1", width: "32", sharpness: "3", lr: "0.003" };
    for (const [id, value] of Object.entries(choices)) await choose(page, id, value);
    for (const rule of ["adamW", "rmsProp", "nAdam", "sgd", "adam"]) {
      await choose(page, "optimizer", rule);
      await untilIdle(page);
      expect((await steps(page)) === 0, "a new net begins at 0");
      await trainFor(page, 10);
      expect((await likeness(page)) > 5, `${rule}: ${await likeness(page)} dB`);
    }
    for (const name of ["lake", "rings", "sign"]) {
      const before = await cells(page, "original", 16);
      await choose(page, "picture", name);
      await page.waitForFunction(() => window.demo.loop.steps === 0);
      await untilIdle(page);
      expect((await cells(page, "original", 16)).join() !== before.join(), `${name} looks like the one before`);
      await trainFor(page, 5);
    }
  });

  await test(`${where}: a picture of one's own`, async () => {
    const file = { name: "disc.png", mimeType: "image/png", buffer: discPng(300, 201) };
    await page.locator("#file").setInputFiles(file);
    await page.waitForFunction(() => window.demo.loop.steps === 0);
    await untilIdle(page);
    // The center of the disc is red, and the corners of the image are not.
    const shown = await cells(page, "original", 3);
    const [corner, middle] = [0, 4].map((n) => shown.slice(3 * n, 3 * n + 3).map((part) => Math.round(255 * part)));
    expect(middle.join() === "220,40,30" && corner[0] === 10, `the middle is ${middle}, a corner ${corner}`);
    // Drops an image that is all blue on the page.
    await page.evaluate(async () => {
      const canvas = new OffscreenCanvas(30, 20);
      Object.assign(canvas.getContext("2d"), { fillStyle: "#0000ff" }).fillRect(0, 0, 30, 20);
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([await canvas.convertToBlob()], "blue.png", { type: "image/png" }));
      document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    });
    await page.waitForTimeout(500);
    await untilIdle(page);
    const dropped = (await cells(page, "original", 3)).slice(0, 3).join();
    expect(dropped === "0,0,1", `what was dropped is ${dropped}`);
    await page.locator("#file").setInputFiles({ name: "no.png", mimeType: "image/png", buffer: Buffer.from("no") });
    await page.locator("#notice.error").waitFor();
    await trainFor(page, 10);
  });

  await test(`${where}: the camera, which the net follows`, async () => {
    await press(page, "Camera");
    await page.getByRole("button", { name: "Stop the camera", exact: true }).waitFor();
    const first = (await cells(page, "original", 16)).join();
    await trainFor(page, 20);
    expect((await cells(page, "original", 16)).join() !== first, "the picture stands still");
    const before = await steps(page);
    expect(before >= 20, `${before} steps: each frame has a new net`);
    await press(page, "Stop the camera");
    await page.getByRole("button", { name: "Camera", exact: true }).waitFor();
    await page.waitForTimeout(500);
    await untilIdle(page);
    expect((await steps(page)) === before, "the net is a new one");
  });

  await test(`${where}: steps a second, beside the CPU's`, async () => {
    await timed(page);
    await wellMade(page);
  });
});
