/** What a validation is to tell beside the loss: scikit-learn's formulas. `average` is `"macro"` if it is left out. */
export type Metric =
  | "accuracy"
  | "meanAbsoluteError"
  | "meanSquaredError"
  | "r2Score"
  | { metric: "topKAccuracy"; k: number }
  | { metric: "precision" | "recall" | "f1"; classes: number; average?: Average }
  /** Not a number: {@link Trainer.confusionMatrix} has it. */
  | { metric: "confusionMatrix"; classes: number };

/** How a {@link Trainer} trains. */
export interface TrainerOptions {
  /** How many epochs there are in all, those of a checkpoint included. Default: 1. */
  epochs?: number;
  /** Examples of a batch, where the data are tensors of all of them. Default: 32. */
  batchSize?: number;
  /** The seed by which each epoch has another order, the same on every device. Default: the order in which they are. */
  shuffle?: number;
  /** Whether a last batch of fewer examples is left out. Default: false. */
  dropLast?: boolean;
  /** After each epoch the model is evaluated with these data; batches are gone through once, and kept. Default: none. */
  validation?: TrainingData;
  /** What is computed of the validation; `forward` must return predictions then. Default: none. */
  metrics?: readonly Metric[];
  /** The learning rate of each step: that of the optimizer's first group; others keep their ratios to it. Default: as it is. */
  schedule?: Schedule;
  /** The learning rate of each epoch. */
  scheduleByEpoch?: Schedule;
  /** A learning rate that falls where the validation's loss stays: what {@link Schedule.reduceOnPlateau} makes. */
  reduceOnPlateau?: Schedule;
  /** It may end before its last epoch. What it monitors is `validationLoss` unless it says so, and needs `validation`. */
  earlyStopping?: EarlyStopping;
  /** After so many steps each the mean loss so far is read, which waits: `meanLoss`. Default: 0, after epochs alone. */
  reportEvery?: number;
  /**
   * Whether each step first looks if its loss and gradients are finite. If not, it is an error that names the first operation
   * whose result is not ({@link Tensor.findNonFinite}), and the model is as it was. It takes several times as long.
   * Default: false.
   */
  detectAnomaly?: boolean;
  /** Generators that `forward` draws from, so that checkpoints note it; those of the model's dropout are known. */
  generators?: readonly Generator[];
}

/** How well a model does on data that it is not trained on. */
export interface Scores {
  /** The mean loss over all examples. */
  readonly loss: number;
  /** The metrics by their names: `accuracy`, `f1Macro`, `top5Accuracy`, ... */
  readonly metrics: Readonly<Record<string, number>>;
}

/** What came of an epoch. */
export interface Epoch {
  /** Its number; the first is 0. */
  readonly epoch: number;
  /** How many steps were taken by its end, those of earlier epochs included. */
  readonly steps: number;
  /** The mean loss over all its examples, each with the parameters of its step. */
  readonly loss: number;
  /** What validation gave after it, if there is data for it. */
  readonly validation: Scores | undefined;
  /** The learning rate of its last step. */
  readonly lr: number;
  /** How long it took, with validation. */
  readonly seconds: number;
}

/** A step that was taken. */
export interface TrainingStep {
  /** Its number among all steps; the first is 0. */
  readonly step: number;
  /** The epoch that it belongs to; the first is 0. */
  readonly epoch: number;
  /** Its number in the epoch; the first is 0. */
  readonly batch: number;
  /** The learning rate that it was taken with. */
  readonly lr: number;
  /**
   * Its loss. Reading it waits for the step. The next step disposes of it, as `load` and `dispose` of the trainer do;
   * {@link Tensor.detach} gives one that stays.
   */
  readonly loss: Tensor;
  /** The mean loss of the epoch so far, at each step that `reportEvery` says. */
  readonly meanLoss: number | undefined;
  /** What came of the epoch, after its last step. */
  readonly ended: Epoch | undefined;
}

export interface Trainer extends AsyncIterable<TrainingStep> {
  /**
   * Takes the next step, and ends the epoch after its last one; undefined when the training is over. A step that fails was not
   * taken: the model, its running statistics, generators and learning rates are as they were, and the next call takes it on
   * the same batch. If the step was taken, and the end of its epoch failed, the next call ends the epoch.
   *
   * @example
   * ```ts
   * for (let step; (step = await trainer.nextStep()); ) console.log(await step.loss.item());
   * ```
   *
   * @throws What the function or the data throw, as it is; `Data` if a loss of the epoch was not finite, or the trainer is at
   * work.
   */
  nextStep(): Promise<TrainingStep | undefined>;
  /**
   * Trains until all epochs are over or early stopping ends it; `onStep` hears of each step, and is awaited. Returns what came
   * of each epoch. However it ends, the next call goes on; who wants to end it in between iterates, and breaks.
   *
   * @example
   * ```ts
   * const stop = new AbortController();
   * button.onclick = () => stop.abort();
   * await trainer.fit(({ step }) => (bar.value = step), { signal: stop.signal });
   * ```
   *
   * @throws As {@link Trainer.nextStep}; what `onStep` throws; the signal's reason.
   */
  fit(onStep?: (step: TrainingStep) => unknown, options?: FitOptions): Promise<readonly Epoch[]>;
  /**
   * Takes a step on a batch that you pass. It counts as a step of the epoch, but the position in the trainer's own data stays
   * where it is. End epochs with {@link Trainer.endEpoch} if you take all steps this way.
   *
   * @example
   * ```ts
   * const { loss } = await trainer.step(x, y);
   * ```
   *
   * @throws As {@link Trainer.nextStep}.
   */
  step(x: Tensor, y: Tensor): Promise<TrainingStep>;
  /**
   * Ends an epoch: reads its mean loss, validates, and begins the next. {@link Trainer.nextStep} does it by itself.
   *
   * @example
   * ```ts
   * const { loss, validation } = await trainer.endEpoch();
   * ```
   *
   * @throws As {@link Trainer.nextStep}; `Data` if no step of the epoch was taken.
   */
  endEpoch(): Promise<Epoch>;
  /**
   * The mean loss and the metrics over these data, with the model in evaluation; it trains again afterwards.
   *
   * @example
   * ```ts
   * const { loss, metrics } = await trainer.evaluate([xTest, yTest]);
   * console.log(loss, metrics.accuracy);
   * ```
   *
   * @throws As {@link Trainer.nextStep}; `Data` if there are no batches, or metrics and no prediction.
   */
  evaluate(data: TrainingData): Promise<Scores>;
  /**
   * A safetensors file of the training as it is now, with notes: the model's values by their names, and all that is needed to
   * go on to the same bits. That includes gradients that wait for a step, and averages ({@link Optimizer.average}).
   * `warpweft` in Rust reads it, too.
   *
   * @example
   * ```ts
   * const file = new Blob([await trainer.save({ net: "digits" })]);
   * ```
   *
   * @throws What {@link Tensor.read} rejects with; `Data` if a parameter or a note has a name of the trainer's own.
   */
  save(notes?: Record<string, string>): Promise<Bytes>;
  /**
   * Goes on from such a file, whose notes it returns. Nothing of the time before is left. Model, optimizer, averages, data and
   * options must be made as they were.
   *
   * @example
   * ```ts
   * await trainer.load(await fetch("checkpoint.safetensors"));
   * ```
   *
   * @throws `Data` if it is no checkpoint of this training, `Shape` if a parameter has another shape: then nothing was taken.
   */
  load(file: FileSource, options?: FileOptions): Promise<Record<string, string>>;
  /**
   * Keeps such a file in the browser, in the site's origin private file system (folder `warpweft`). Under its name lies the
   * file before or all of this one, whenever the page is closed.
   *
   * @example
   * ```ts
   * await trainer.loadFrom("digits");
   * for await (const { ended } of trainer) if (ended) await trainer.saveTo("digits");
   * ```
   *
   * @throws `Unsupported` where a site has no files, `Memory` where there is no room.
   */
  saveTo(name: string, notes?: Record<string, string>): Promise<void>;
  /**
   * Goes on from such a file, whose notes it returns; undefined if there is none.
   *
   * @example
   * ```ts
   * if (!(await trainer.loadFrom("digits"))) console.log("it begins");
   * ```
   *
   * @throws As {@link Trainer.load}; `Unsupported` where a site has no files.
   */
  loadFrom(name: string): Promise<Record<string, string> | undefined>;
  /** `Trainer`. */
  toString(): string;
}

export declare namespace Trainer {
  /**
   * Two parts of data: the second has `fraction` of the examples, rounded up, which the seed picks. It is for validation.
   *
   * @example
   * ```ts
   * const [train, validation] = Trainer.split([x, y], 0.2, 1);
   * ```
   *
   * @throws `Data` unless both parts have an example.
   */
  export function split(data: readonly [Tensor, Tensor], fraction: number, seed: number): [[Tensor, Tensor], [Tensor, Tensor]];
}
