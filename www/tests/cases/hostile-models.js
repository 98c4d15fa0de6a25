// Tests hostile calls of everything that trains models. Each call must return a value or throw the package's error. Created
// objects are arguments of later calls.

import { argument, chance, methods, written } from "./hostile.js";
import { check, test } from "./harness.js";

const CODES = ["Shape", "DType", "InvalidArgument", "InvalidState", "Format", "Limit", "Unsupported", "Memory"];

/** Internal methods that only the package's JavaScript calls. */
const INNER = new Set("state load end place bring advance learn close score toFile resume asyncIterator".split(" "));

/** Names of options of the classes. */
const OPTIONS = ["lr", "momentum", "bias", "heads", "dropout", "numLayers", "hidden", "eps", "patience", "factor", "totalIters",
  "batchSize", "shuffle", "dropLast", "epochs", "validation", "metrics", "schedule", "scheduleByEpoch", "reduceOnPlateau",
  "earlyStopping", "reportEvery", "detectAnomaly", "generators", "signal", "betas", "weightDecay", "dimFeedforward", "activation", "affine"];

const statics = (kind) => Object.getOwnPropertyNames(kind).filter((name) => typeof kind[name] === "function");

/** Hostile calls, and their results. */
class Storm {
  seen = { made: 0, waited: 0, refused: {} };
  objects = [];

  constructor(context, seed) {
    Object.assign(this, { context, seed, random: chance(seed) });
  }

  /** Creates new working objects, because some calls end the existing ones. */
  renew() {
    const { context } = this;
    const { device, Generator, Layer, Optimizer, Schedule, Sequential, Trainer, Variable } = context;
    const g = new Generator(device, 1);
    const [x, y] = [device.ones([4, 2]), device.ones([4, 1])];
    this.tensors = [x, y, device.ones([2]), device.ones([1, 1, 4, 4]), device.tensor([0, 1], [2], "i32"), device.ones([2, 3, 4])];
    const model = new Sequential(Layer.linear(g, 2, 2), Layer.dropout(g, 0.5), Layer.linear(g, 2, 1));
    const optimizer = Optimizer.adam(model);
    const loss = (x, y) => model.forward(x).mseLoss(y);
    const trainer = new Trainer(model, optimizer, [x, y], loss, { batchSize: 2, epochs: 1e6, validation: [x, y] });
    this.fixed = [device, g, model, optimizer, trainer, loss, Schedule.stepLr(0.1, 2), Layer.lstm(g, 2, 2), [x, y], new Variable(device.ones([2]))];
  }

  any() {
    const { random } = this;
    const all = [...this.fixed, ...this.objects, ...this.tensors];
    if (random.below(8) > 0) return random.below(2) ? random.one(all) : argument(random, all);
    const entries = Array.from({ length: random.below(4) }, () => [random.one(OPTIONS), random.below(2) ? random.below(4) : this.any()]);
    return Object.fromEntries(entries);
  }

  /** Returns arguments that mostly fit. Each may be replaced by any other value. */
  mostly(...expected) {
    return expected.map((value) => (this.random.below(5) ? value : this.any()));
  }

  /** Returns a random call, and its text. */
  call() {
    const { random, context, fixed } = this;
    const { Generator, Layer, Module, Optimizer, Residual, Schedule, Sequential, Trainer, Variable } = context;
    const values = Array.from({ length: random.below(5) }, () => this.any());
    const [device, g, model, optimizer, trainer, loss, , , data] = fixed;
    const made = (name, make) => [`${name}(${values.map(shown).join(", ")})`, make];
    const fitting = random.below(3);
    const small = () => 1 + random.below(3);
    switch (random.below(12)) {
      case 0:
        return made("new Generator", () => new Generator(...this.mostly(device, 1)));
      case 1: case 2: {
        const name = random.one(statics(Layer));
        const list = fitting ? this.mostly(g, small(), small(), ...values) : values;
        return made(`Layer.${name}`, () => Layer[name](...list));
      }
      case 3:
        return made("new Sequential, Residual, Variable, Layer, Module", () => {
          const kind = random.one([Sequential, Residual, Variable, Layer]);
          return kind === Layer && random.below(2) ? new (class extends Module { part = values; })().stateDict() : new kind(...values);
        });
      case 4: {
        const name = random.one(statics(Optimizer));
        // A new parameter, because sharing one would end the other optimizer.
        const own = new Variable(device.ones([2, 2]));
        return made(`Optimizer.${name}`, () => Optimizer[name](...this.mostly([own]), ...values));
      }
      case 5: {
        const name = random.one(statics(Schedule));
        return made(`Schedule.${name}`, () => Schedule[name](...(fitting ? this.mostly(0.1, small(), small()) : values)));
      }
      case 6:
        return made("new Trainer", () => new Trainer(...this.mostly(model, optimizer, data, loss), ...values.slice(0, 1)));
      case 7:
        return made("Trainer.split", () => Trainer.split(...(fitting ? this.mostly(data, 0.5, 1) : values)));
      case 8: {
        const name = random.one(["loadSafetensors", "saveSafetensors", "loadNpy", "loadNpz", "saveNpz"]);
        return made(`device.${name}`, () => device[name](...values));
      }
      default: {
        const on = random.one([...fixed.slice(1), ...this.objects].filter((x) => typeof x === "object" && !Array.isArray(x)));
        const name = random.one(methods(Object.getPrototypeOf(on)).filter((name) => !INNER.has(name)));
        if (["saveTo", "loadFrom"].includes(name)) return made(name, () => trainer.loadFrom(random.one([3, "", "..", null])));
        // Otherwise, this training would not end.
        if (name === "fit") return made("fit", () => on.fit(() => { throw new context.WarpweftError("InvalidArgument", "enough"); }, ...values));
        return made(`${written(on)}.${name}`, () => on?.[name]?.(...values));
      }
    }
  }

  async strike() {
    const [call, make] = this.call();
    try {
      const made = make();
      const value = made instanceof Promise ? await made : made;
      this.seen[made instanceof Promise ? "waited" : "made"] += 1;
      this.keep(value);
    } catch (error) {
      const code = error instanceof this.context.WarpweftError && error.code;
      check(CODES.includes(code), `seed ${this.seed}: ${call}: ${error?.stack ?? error}`);
      this.seen.refused[code] = (this.seen.refused[code] ?? 0) + 1;
    }
  }

  /** Makes a created object an argument of later calls, and disposes of an older one. */
  keep(value) {
    const { Tensor } = this.context;
    if (value instanceof Tensor && !this.tensors.includes(value)) value.dispose();
    if (typeof value !== "object" || value === null || value instanceof Tensor || this.fixed.includes(value)) return;
    const classes = ["Generator", "Layer", "Module", "Optimizer", "WeightAverage", "Schedule", "Trainer", "Variable"];
    if (!classes.some((name) => value instanceof this.context[name])) return;
    const at = Math.min(this.random.below(12), this.objects.length);
    if (this.random.below(2)) this.objects[at]?.dispose?.();
    this.objects[at] = value;
  }
}

/** Returns a short text of an argument. */
const shown = (value) => {
  try {
    return written(value).slice(0, 80);
  } catch {
    return typeof value;
  }
};

test("models and trainings as nobody should make them", async (context) => {
  const [count, seed] = context.hostile;
  const storm = new Storm(context, seed);
  for (let n = 0; n < count / 2; n++) {
    if (n % 200 === 0) storm.renew();
    await storm.strike();
  }
  const { seen } = storm;
  console.log(`models: ${JSON.stringify(seen)}`);
  check(seen.made > count / 20 && seen.waited > count / 200, `too few calls made something: ${JSON.stringify(seen)}`);
  for (const code of ["Shape", "InvalidArgument"]) check(seen.refused[code] > 5, `${code} is not among the refusals: ${JSON.stringify(seen)}`);
  storm.renew();
  check((await storm.fixed[4].nextStep()).step === 0, "a trainer takes a step afterwards");
});
