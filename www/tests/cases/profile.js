// Tests profiles, memory reports, and the output for finding slow or wrong code.

import { check, refuses, rejects, same, test } from "./harness.js";

/** The clock of a device here. Chromium's GPU has timestamps. */
const clockOf = ({ info }) => (info.kind === "cpu" ? "host" : "timestamps");

test("a profile says what each kernel did", async ({ device }) => {
  // Large enough for a clock with a resolution of 0.1 ms.
  const [x, w] = [device.ones([320, 480]), device.ones([480, 160])];
  const { value, profile } = await device.profile(() => x.matmul(w).relu());
  same((await value.read())[0], 480);
  const data = profile.toJSON();
  same(data.clock, clockOf(device), "clock");
  check(data.resolution > 0 && data.total > 0, `times: ${JSON.stringify(data)}`);
  const product = data.kernels.find(({ kind }) => kind === "matmul");
  check(product !== undefined, profile.text);
  same([product.runs, product.timed, product.bytesWritten], [1, 1, 4 * 320 * 160]);
  // Two operations for each multiply-add, one for relu.
  same(product.flops, 320 * 160 * (2 * 480 + 1));
  check(product.label.startsWith("matmul[320,480]x[480,160]"), product.label);
  check(data.kernels.every(({ time }) => time >= 0) && data.deviceTime <= data.total, profile.text);
  check(profile.text.includes(product.label) && String(profile) === profile.text, profile.text);
  const phases = ["recording", "planning", "compiling", "uploading", "submitting", "waiting"];
  same(Object.keys(data.host), phases);
  const { traceEvents } = JSON.parse(profile.toChromeTrace());
  same(traceEvents.filter(({ cat }) => cat === "kernel").length, data.kernels.reduce((sum, { runs }) => sum + runs, 0));
  profile.dispose();
  refuses("InvalidState", "profile", () => profile.text);
});

test("a profile of work that waits, throws, or is profiled already", async ({ device }) => {
  const x = device.ones([64]);
  const { profile } = await device.profile(async () => {
    for (let i = 0; i < 3; i++) await x.mul(i).read();
  });
  same(profile.toJSON().submissions, 3, "submissions");
  const thrown = await device.profile(() => Promise.reject(new TypeError("mine"))).catch((error) => error);
  same(String(thrown), "TypeError: mine");
  await rejects("InvalidState", "profile", () => device.profile(() => device.profile(() => undefined)));
  await rejects("InvalidArgument", "profile", () => device.profile(17));
  same((await device.profile(() => 5)).value, 5);
});

test("many steps have times that add up", async ({ device }) => {
  const program = device.compile([{ shape: [128, 128] }], (x) => x.matmul(x).softmax());
  const x = device.ones([128, 128]);
  const { profile } = await device.profile(async () => {
    for (let i = 0; i < 20; i++) program.run(x)[0].dispose();
    await device.synchronize();
  });
  const { kernels, deviceTime, untimed } = profile.toJSON();
  same(untimed, 0, "kernels without a time");
  same(kernels.map(({ runs }) => runs % 20), kernels.map(() => 0));
  check(deviceTime > 0, profile.text);
});

test("the device's ceilings are measured once", async ({ device }) => {
  const most = await device.measureCeilings();
  check(most.bytesPerSecond > 1e7 && most.flopsPerSecond > 1e7, JSON.stringify(most));
  same(await device.measureCeilings(), most);
  const x = device.ones([256, 256]);
  const { profile } = await device.profile(() => x.matmul(x));
  same(profile.toJSON().ceilings, most);
  check(profile.text.includes("of product"), profile.text);
});

test("what ran is in the browser's own panel", async ({ device }) => {
  if (!("chrome" in globalThis)) return;
  const seen = [];
  const observer = new PerformanceObserver((list) => seen.push(...list.getEntries()));
  observer.observe({ entryTypes: ["measure"] });
  const begun = performance.now();
  const x = device.ones([32, 32]);
  await device.profile(() => x.matmul(x).exp());
  for (let tries = 0; tries < 50 && seen.length === 0; tries++) await new Promise((resolve) => setTimeout(resolve, 20));
  observer.disconnect();
  const kernels = seen.filter(({ detail }) => detail?.devtools?.track === "kernels");
  check(kernels.length > 0, `only ${seen.map(({ name }) => name)}`);
  for (const { startTime, detail } of kernels) {
    check(startTime >= begun - 1 && startTime <= performance.now(), `${startTime} is not after ${begun}`);
    same(detail.devtools.dataType, "track-entry");
  }
  same(performance.getEntriesByType("measure").length, 0, "what is left");
});

test("memory is what holds it", async ({ device, setDebug }) => {
  device.trim();
  const before = device.memory();
  setDebug("memory");
  const x = device.tensor(new Float32Array(1 << 16));
  setDebug("");
  const memory = device.memory();
  same(memory.tensors - before.tensors, 1 << 18, "bytes of tensors");
  const used = memory.tensors + memory.variables + memory.constants + memory.pending + memory.temporaries;
  same([memory.allocated, used], [device.stats().bytes, device.stats().usedBytes]);
  // Other cases may have left tensors that are not collected yet.
  const made = memory.largest.find(({ madeAt }) => /profile\.js:\d+/.test(madeAt));
  check(made, `nothing is said to be made here: ${JSON.stringify(memory.largest)}`);
  const { shape, dtype, op, holder, bytes } = made;
  same([shape, dtype, op, holder, bytes], [[1 << 16], "f32", "data", "tensor", 1 << 18]);
  x.dispose();
  same(device.memory().tensors, before.tensors, "bytes that are left");
});

test("what is planned is printed where that is wanted", async ({ device, setDebug }) => {
  const printed = [];
  const { log } = console;
  console.log = (text) => printed.push(text);
  try {
    setDebug("plan,time");
    await device.ones([7, 11]).exp().add(0.25).read();
    setDebug("");
    await device.ones([11, 7]).exp().add(0.25).read();
  } finally {
    console.log = log;
  }
  const text = printed.join("\n");
  check(/1 kernels/.test(text) && /#0 map/.test(text) && /on the device; recording/.test(text), text);
  const passes = printed.filter((text) => /after [a-z ]+: \d+ kernels/.test(text));
  check(passes.length >= 4, `${passes.length} passes of the planner`);
  same(printed.length - passes.length, 2, "texts besides those of passes");
  refuses("InvalidArgument", "debug", () => setDebug("plans"));
  refuses("InvalidArgument", "debug", () => setDebug(3));
});
