// Tests the demo page of a text: a transformer that learns it and writes, its attention, and weights as files.
//
// Prints `N passed, M failed`.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../tools/env.mjs";
import { expect, press, stands, test, testPage, text, timed, trainUntil, untilIdle, wellMade } from "./support/demo.js";

/** A text that is all one sentence. */
const sentence = "Warp threads are held, and weft threads go through. ";
/** The initial text, and the weights that `warpweft train chars` trained on it. */
const prose = readFileSync(join(root, "native/data/text.txt"), "utf8");
const trained = readFileSync(join(root, "www/demo/chars.safetensors"));

/** Returns the weights that the page saves. */
async function download(page) {
  const [file] = await Promise.all([page.waitForEvent("download"), press(page, "Save weights")]);
  expect(file.suggestedFilename() === "chars.safetensors", `it is called ${file.suggestedFilename()}`);
  return readFileSync(await file.path());
}

/** Loads a file of weights. Returns the page's message. */
async function upload(page, buffer) {
  await page.evaluate(() => (document.getElementById("notice").textContent = "–"));
  await page.locator("#file").setInputFiles({ name: "w.safetensors", mimeType: "application/octet-stream", buffer });
  await page.waitForFunction(() => document.getElementById("notice").textContent !== "–");
  await untilIdle(page);
  return (await page.locator("#notice.error").isVisible()) ? text(page, "notice") : "";
}

/** Returns the trained weights with a text of the same length replaced in the file's header. */
function altered(from, to) {
  const file = Buffer.from(trained);
  const at = file.indexOf(from);
  expect(at > 0 && from.length === to.length, `${from} is not in the file, or is no ${to}`);
  file.write(to, at);
  return file;
}

/** Returns the displayed attention: the characters of each line, and the sums of their weights. */
const looks = (page) =>
  page.locator("#attending > div").evaluateAll((lines) =>
    lines.map((line) => {
      const spans = [...line.querySelectorAll("span")];
      const shares = spans.map((span) => Number(span.style.getPropertyValue("--share")) ** 2);
      return { seen: spans.map((span) => span.textContent).join(""), shares, label: line.ariaLabel };
    }),
  );

await testPage(async (page, where, visit) => {
  await test(`${where}: a text, and what an untrained net writes`, async () => {
    await visit("chars.html");
    await page.locator("#width").selectOption("32");
    await press(page, "Step");
    await untilIdle(page);
    const shown = await text(page, "about-text");
    const [, count, known] = shown.match(/^([\d,]+) characters, (\d+) different/);
    expect((await page.locator("#text").inputValue()) === prose, "it is not the text of native/data");
    expect(Number(count.replace(",", "")) === [...(await page.locator("#text").inputValue())].length, shown);
    // Random embeddings of variance 1 make confident wrong predictions at first.
    const loss = await page.evaluate(() => window.demo.losses.test);
    expect(loss > 0.8 * Math.log(known) && loss < 1.5 * Math.log(known), `${loss} after one step, of ${known} characters`);
    expect((await text(page, "written")).length === 4, `it wrote ${await text(page, "written")}`);
    expect((await text(page, "code")).includes("Layer.transformerEncoderLayer("), "the code is not shown");
    await wellMade(page);
  });

  await test(`${where}: attention is the layers' own`, async () => {
    const { sums, apart, ahead, second } = await page.evaluate(async () => {
      const { Device, Generator, Layer } = await import("/dist/nn.js");
      const { attending, attention } = await import("/demo/attending.js");
      const { Transformer } = await import("/demo/transformer.js");
      const device = await Device.new({ prefer: new URLSearchParams(location.search).get("device") ?? "auto" });
      const generator = new Generator(device, 1);
      // Zero biases and unit scales would hide a missing use.
      const shake = (module) => {
        const state = Object.entries(module.stateDict());
        const other = state.map(([name, { shape }], seed) => [name, device.normal(shape, { std: 0.4, seed })]);
        module.loadStateDict(Object.fromEntries(other));
        return module;
      };
      const options = { dimFeedforward: 32, activation: "gelu", normFirst: true, dropout: 0 };
      const layer = shake(Layer.transformerEncoderLayer(generator, 16, 4, options));
      const value = (name) => layer.parameter(name).value;
      const linear = (x, name) => x.matmul(value(`${name}.weight`).transpose()).add(value(`${name}.bias`));
      const x = device.normal([2, 9, 16], { seed: 100 });
      const { weights, found } = attention(device, layer, x, 4);
      const after = x.add(linear(found, "self_attn.out_proj"));
      const normal = after.layerNorm({ axes: -1, weight: value("norm2.weight"), bias: value("norm2.bias") });
      const made = after.add(linear(linear(normal, "linear1").gelu(), "linear2"));
      const most = (x) => x.abs().max().item();
      const ahead = device.iota([9, 9], 1).gt(device.iota([9, 9], 0)).where(weights, 0);
      // Each layer of a net gets the output of the previous layer.
      const net = shake(new Transformer(generator, { characters: 5, length: 8, width: 16, heads: 4, layers: 2 }));
      const text = Int32Array.of(3, 1, 4, 1, 0, 2, 0, 0);
      const [, looked] = attending(device, net, text, 5, 4);
      const inner = net.layers[0].forward(net.embed(device.tensor(text, [1, 8])), { isCausal: true });
      const wanted = attention(device, net.layers[1], inner, 4).weights.select(2, 5).squeeze(0);
      const results = {
        sums: await most(weights.sum(-1).sub(1)),
        apart: await most(made.sub(layer.forward(x, { isCausal: true }))),
        ahead: await most(ahead),
        second: await most(looked.sub(wanted)),
      };
      return results;
    });
    expect(sums < 1e-5, `weights of a place add up to 1 but for ${sums}`);
    expect(apart < 1e-4, `what is made by these weights lies ${apart} from the layer's own`);
    expect(ahead === 0, `places look ahead by ${ahead}`);
    expect(second < 1e-5, `the second layer's weights are ${second} from what they are`);
  });

  await test(`${where}: weights that were trained natively write words, and are saved as they were`, async () => {
    await press(page, "Load trained weights");
    await page.waitForFunction(() => window.demo.losses.test < 1.6);
    await untilIdle(page);
    expect((await page.locator("#width").inputValue()) === "64", "the width is another one");
    await page.waitForFunction(() => document.getElementById("written").textContent.length > 100);
    await untilIdle(page);
    const written = await text(page, "written");
    const words = written.match(/[a-z]{3,}/gi) ?? [];
    const known = new Set(prose.toLowerCase().match(/[a-z]{3,}/g));
    const right = words.filter((word) => known.has(word.toLowerCase()));
    expect(words.length > 5 && right.length > 0.6 * words.length, `it writes: ${written}`);
    const shown = await looks(page);
    expect(shown.length === 8, `${shown.length} lines of attention`);
    const visible = written.replaceAll("\n", "↵");
    for (const { seen, shares, label } of shown) {
      expect(seen === visible.slice(-65, -1), `${label}: of ${seen}, and it wrote ${visible}`);
      const sum = shares.reduce((sum, share) => sum + share, 0);
      expect(Math.abs(sum - 1) < 0.01, `${label}: the shares add up to ${sum}`);
    }
    expect((await download(page)).equals(trained), "the same weights are another file");
  });

  await test(`${where}: weights of all kinds of files`, async () => {
    const loss = () => page.evaluate(() => window.demo.losses.test);
    const before = await loss();
    for (const [file, words] of [
      [Buffer.from("no weights"), "These weights could not be loaded. "],
      [trained.subarray(0, trained.length - 100), "These weights could not be loaded. "],
      [readFileSync(join(root, "www/demo/digits.safetensors")), "These weights are for another network: digits."],
      [altered("architecture", "architectura"), "This file does not say which network its weights are for."],
      [altered('\\"width\\":64', '\\"width\\":48'), "network of this size: width 48."],
      [altered('\\"heads\\":4', '\\"heads\\":8'), "network of this size: heads 8."],
      [altered("head.bias", "head.bios"), "head.bias"],
    ]) {
      const shown = await upload(page, file);
      expect(shown.includes(words), `it says: ${shown}, not ${words}`);
      expect((await loss()) === before, `${words}: a bad file changed the net`);
    }
    await page.locator("#layers").selectOption("1");
    await press(page, "Step");
    await untilIdle(page);
    const file = await download(page);
    const header = JSON.parse(file.subarray(8, 8 + Number(file.readBigUInt64LE(0))).toString());
    const { width, layers, dim_feedforward: wide } = JSON.parse(header.__metadata__.architecture);
    expect(width === 64 && layers === 1 && wide === 256, header.__metadata__.architecture);
    const learnt = await loss();
    await page.locator("#layers").selectOption("2");
    await untilIdle(page);
    expect((await upload(page, file)) === "", await text(page, "notice"));
    expect((await loss()) === learnt, `a loss of ${learnt} was saved, and ${await loss()} is back`);
    expect((await page.locator("#layers").inputValue()) === "1", "the layers are others");
    await wellMade(page);
  });

  await test(`${where}: a sentence is learnt and written`, async () => {
    await page.locator("#text").fill("Too short.");
    await press(page, "Train on this text");
    await page.locator("#notice.error").waitFor();
    await page.locator("#text").fill(sentence.repeat(40));
    await press(page, "Train on this text");
    await page.locator("#notice.error").waitFor({ state: "hidden" });
    for (const [id, value] of Object.entries({ width: "32", lr: "0.01", temperature: "0.2" })) {
      await page.locator(`#${id}`).selectOption(value);
    }
    await untilIdle(page);
    // No net can do better than 0.02, because the first characters of a piece may not determine its position in the sentence.
    await trainUntil(page, () => window.demo.losses.test < 0.03);
    // With weights from a file, the page writes a new text. Text from before the training would otherwise mislead the net.
    expect((await upload(page, await download(page))) === "", await text(page, "notice"));
    await press(page, "Continue writing");
    await untilIdle(page);
    const last = (await text(page, "written")).slice(-60);
    const threes = Array.from({ length: last.length - 2 }, (_, n) => last.slice(n, n + 3));
    const known = threes.filter((three) => sentence.repeat(2).includes(three));
    expect(last.length === 60 && known.length > 0.7 * threes.length, `it writes: ${last}`);
  });

  await test(`${where}: weights of another text`, async () => {
    const before = await page.evaluate(() => window.demo.losses.test);
    const shown = await upload(page, trained);
    const words = `that text has ${new Set(prose).size} different characters, and this one has ${new Set(sentence).size}`;
    expect(shown.includes(words), `it says: ${shown}`);
    expect((await page.evaluate(() => window.demo.losses.test)) === before, "weights of another text changed the net");
  });

  await test(`${where}: nothing grows by fifty steps`, () => stands(page, 50, 10));

  await test(`${where}: steps a second, beside the CPU's`, () => timed(page));
});
