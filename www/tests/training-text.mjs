// The demo page of a text: a transformer that learns it, and writes.
//
// Prints `N passed, M failed`.

import { expect, press, settled, stands, test, testPage, text, trainUntil, wellMade } from "./support/demo.js";

/** A text that is all one sentence. */
const sentence = "Warp threads are held, and weft threads go through. ";

await testPage(async (page, where, visit) => {
  await test(`${where}: a text, and what an untrained net writes`, async () => {
    await visit("chars.html");
    await page.locator("#width").selectOption("32");
    await press(page, "Step");
    await settled(page);
    const said = await text(page, "about-text");
    const [, count, known] = said.match(/^([\d,]+) characters, (\d+) different/);
    expect(Number(count.replace(",", "")) === [...(await page.locator("#text").inputValue())].length, said);
    // Embeddings of variance 1 are sure of something wrong at first.
    const loss = await page.evaluate(() => window.demo.losses.test);
    expect(loss > 0.8 * Math.log(known) && loss < 1.5 * Math.log(known), `${loss} after one step, of ${known} characters`);
    expect((await text(page, "written")).length === 4, `it wrote ${await text(page, "written")}`);
    expect((await text(page, "code")).includes("Layer.transformerEncoderLayer("), "the code is not shown");
    await wellMade(page);
  });

  await test(`${where}: a sentence is learnt and written`, async () => {
    await page.locator("#text").fill("Too short.");
    await press(page, "Learn this text");
    await page.locator("#notice.error").waitFor();
    await page.locator("#text").fill(sentence.repeat(40));
    await press(page, "Learn this text");
    await page.locator("#notice.error").waitFor({ state: "hidden" });
    for (const [id, value] of Object.entries({ layers: "1", lr: "0.01", temperature: "0.2" })) {
      await page.locator(`#${id}`).selectOption(value);
    }
    await settled(page);
    await trainUntil(page, () => window.demo.losses.test < 0.05);
    await press(page, "Write on");
    await settled(page);
    // What it wrote before it could stands before it, and may lead it astray: not all need be the sentence, but most.
    const last = (await text(page, "written")).slice(-60);
    const threes = Array.from({ length: last.length - 2 }, (_, n) => last.slice(n, n + 3));
    const known = threes.filter((three) => sentence.repeat(2).includes(three));
    expect(last.length === 60 && known.length > 0.7 * threes.length, `it writes: ${last}`);
  });

  await test(`${where}: nothing grows by fifty steps`, () => stands(page, 50, 10));
});
