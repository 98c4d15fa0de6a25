// Tests the demo page of two classes of points: a net that learns, and points by the mouse.
//
// Prints `N passed, M failed`.

import { expect, press, stands, steps, test, testPage, text, untilIdle } from "./support/demo.js";
import { timed, trainFor, trainUntil, wellMade } from "./support/demo.js";

/** Returns the color of the plane at a position, which is the predicted class. */
const sideOf = (page, x, y) =>
  page.evaluate(([x, y]) => {
    const plane = document.getElementById("plane");
    const [left, top] = [x + 2, 2 - y].map((part) => Math.trunc((part / 4) * plane.width));
    const copy = new OffscreenCanvas(1, 1).getContext("2d");
    copy.drawImage(plane, -left, -top);
    const [red, , blue] = copy.getImageData(0, 0, 1, 1).data;
    return red > blue ? "orange" : "green";
  }, [x, y]);

await testPage(async (page, where, visit) => {
  await test(`${where}: the points are there, and a step is one step`, async () => {
    await visit("train.html");
    await press(page, "Step");
    await untilIdle(page);
    expect((await steps(page)) === 1 && (await text(page, "steps")) === "1", `${await text(page, "steps")} steps`);
    expect(/^0\.\d{4}$/.test(await text(page, "loss")), `the loss is ${await text(page, "loss")}`);
    expect((await text(page, "code")).includes("Layer.linear("), "the code is not shown");
  });

  await test(`${where}: two moons are told apart`, async () => {
    await trainUntil(page, () => window.demo.accuracy.train > 0.98 && window.demo.accuracy.test > 0.95);
    const shown = await Promise.all(["train-accuracy", "test-accuracy"].map((id) => text(page, id)));
    expect(shown.every((percent) => Number.parseFloat(percent) > 95), `it says ${shown}`);
    // The centers of the two moons.
    const sides = [await sideOf(page, -0.525, 0.65), await sideOf(page, 0.525, -0.65)];
    expect(sides.join() === "orange,green", `the moons are ${sides}`);
  });

  await test(`${where}: nothing grows by a thousand steps`, () => stands(page, 1000));

  await test(`${where}: steps by the second, and a page that stays awake`, async () => {
    await page.locator("#speed").selectOption({ label: "10 steps per second" });
    const before = await steps(page);
    await press(page, "Start");
    const longest = await page.evaluate(async () => {
      let [last, longest] = [performance.now(), 0];
      for (const end = last + 2000; last < end; ) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        longest = Math.max(longest, performance.now() - last);
        last = performance.now();
      }
      return longest;
    });
    await press(page, "Pause");
    await untilIdle(page);
    const taken = (await steps(page)) - before;
    expect(taken >= 10 && taken <= 30, `${taken} steps in 2 seconds`);
    expect(longest < 500, `the page slept for ${longest} ms`);
    const paused = await steps(page);
    await page.waitForTimeout(300);
    expect((await steps(page)) === paused, "it goes on in the pause");
  });

  await test(`${where}: other points, nets and rules`, async () => {
    const choices = { data: "spirals", layers: "3", units: "8", activation: "relu", optimizer: "sgd", lr: "0.1" };
    for (const [id, value] of Object.entries(choices)) await page.locator(`#${id}`).selectOption(value);
    await untilIdle(page);
    expect((await steps(page)) === 0, "a new net begins at 0");
    await trainFor(page, 100);
    for (const rule of ["adamW", "rmsProp", "nAdam"]) {
      await page.locator("#optimizer").selectOption(rule);
      await untilIdle(page);
      await trainFor(page, 20);
      expect(Number.isFinite(Number(await text(page, "loss"))), `${rule}: the loss is ${await text(page, "loss")}`);
    }
  });

  await test(`${where}: points of one's own`, async () => {
    const choices = { layers: "2", activation: "tanh", optimizer: "adam", lr: "0.03" };
    for (const [id, value] of Object.entries(choices)) await page.locator(`#${id}`).selectOption(value);
    await press(page, "Remove all points");
    await press(page, "Step");
    await untilIdle(page);
    expect((await steps(page)) === 0, "there is nothing to learn");
    const plane = page.locator("#plane");
    await plane.scrollIntoViewIfNeeded();
    const { width, height } = await plane.boundingBox();
    // Green in two corners, orange in the others. No line separates them.
    for (const [u, v, label] of [[0.2, 0.2, "1"], [0.8, 0.8, "1"], [0.8, 0.2, "0"]]) {
      await page.locator("#class").selectOption(label);
      await plane.click({ position: { x: u * width, y: v * height } });
    }
    // The last one by keys.
    await plane.focus();
    for (const key of ["ArrowLeft", "ArrowDown"]) for (let n = 0; n < 12; n++) await page.keyboard.press(key);
    await page.keyboard.press("Enter");
    await untilIdle(page);
    await trainUntil(page, () => window.demo.accuracy.train === 1 && window.demo.loop.steps > 100);
    const sides = [await sideOf(page, -1.1, 1.1), await sideOf(page, 1.1, 1.1), await sideOf(page, -1.1, -1.1)];
    expect(sides.join() === "green,orange,orange", `the corners are ${sides}`);
    expect((await text(page, "test-accuracy")) === "–", "there are no others to test with");
    await wellMade(page);
  });

  await test(`${where}: steps a second, beside the CPU's`, () => timed(page));
});
