/** A metric that validation computes in addition to the loss, by scikit-learn's formula. The default `average` is `"macro"`. */
export type Metric =
  | "accuracy"
  | "meanAbsoluteError"
  | "meanSquaredError"
  | "r2Score"
  | { metric: "topKAccuracy"; k: number }
  | { metric: "precision" | "recall" | "f1"; classes: number; average?: Average }
  /** The confusion matrix, which is not a number. {@link Trainer.confusionMatrix} returns it. */
  | { metric: "confusionMatrix"; classes: number };

/** The options of a {@link Trainer}. */
export interface TrainerOptions {
  /** The total number of epochs, including those of a checkpoint. Default: 1. */
  epochs?: number;
  /** The number of examples in a batch, if the data are tensors with all examples. Default: 32. */
  batchSize?: number;
  /**
   * The seed for shuffling, if the data are tensors with all examples. Each epoch has another order, which is the same on
   * every device. With data that are batches, it is an `InvalidArgument` error. Default: the examples are not shuffled.
   */
  shuffle?: number;
  /**
   * Whether a last batch with fewer examples is dropped, if the data are tensors with all examples. With data that are batches,
   * true is an `InvalidArgument` error. Default: false.
   */
  dropLast?: boolean;
  /** The data to validate with after each epoch. Batches are read once and kept. Default: no validation. */
  validation?: TrainingData;
  /** The metrics to compute in validation. `forward` must return predictions if there are any. Default: none. */
  metrics?: readonly Metric[];
  /**
   * The learning rate for each step, for the optimizer's first group. Other groups keep their ratios to it. Default: unchanged.
   */
  schedule?: Schedule;
  /** The learning rate for each epoch. */
  scheduleByEpoch?: Schedule;
  /**
   * A schedule of {@link Schedule.reduceOnPlateau}, which lowers the learning rate when the validation loss stops improving.
   */
  reduceOnPlateau?: Schedule;
  /**
   * Ends training before the last epoch if a value stops improving. The default value is `validationLoss`, which needs
   * `validation`.
   */
  earlyStopping?: EarlyStopping;
  /**
   * The number of steps between readings of the mean loss so far, `meanLoss`. Each reading waits for the steps. Default: 0,
   * which reads only after epochs.
   */
  reportEvery?: number;
  /**
   * Whether each step first checks that its loss and gradients are finite. If they are not, the step fails and the model is
   * unchanged. The error names the first operation with a result that is not finite ({@link Tensor.findNonFinite}). Steps take
   * several times as long. Default: false.
   */
  detectAnomaly?: boolean;
  /**
   * Generators that `forward` draws from, so that checkpoints save their states. Generators of the model's dropout are included
   * anyway.
   */
  generators?: readonly Generator[];
}

/** The loss and metrics of a model on data that it is not trained on. */
export interface Scores {
  /** The mean loss over all examples. */
  readonly loss: number;
  /** The metrics by name: `accuracy`, `f1Macro`, `top5Accuracy`, ... */
  readonly metrics: Readonly<Record<string, number>>;
}

/** The result of one epoch. */
export interface Epoch {
  /** The number of the epoch, from 0. */
  readonly epoch: number;
  /** The number of steps at its end, including earlier epochs. */
  readonly steps: number;
  /** The mean loss over all its examples, each with the parameters of its step. */
  readonly loss: number;
  /** The scores of the validation after the epoch, if there are validation data. */
  readonly validation: Scores | undefined;
  /** The learning rate of the last step. */
  readonly lr: number;
  /** The duration in seconds, including validation. */
  readonly seconds: number;
}

/** The result of one training step. */
export interface TrainingStep {
  /** The number of the step in the whole training, from 0. */
  readonly step: number;
  /** The number of its epoch, from 0. */
  readonly epoch: number;
  /** The number of the step in its epoch, from 0. */
  readonly batch: number;
  /** The learning rate of the step. */
  readonly lr: number;
  /**
   * The loss of the step. Reading it waits for the step. The next step disposes of this tensor, and so do `load` and `dispose`
   * of the trainer. Use {@link Tensor.detach} to keep it.
   */
  readonly loss: Tensor;
  /** The mean loss of the epoch so far, at the steps chosen by `reportEvery`. */
  readonly meanLoss: number | undefined;
  /** The result of the epoch, after its last step. */
  readonly ended: Epoch | undefined;
}

export interface Trainer extends AsyncIterable<TrainingStep> {
  /**
   * Takes the next step, and ends the epoch after its last step. Returns undefined when the training is over.
   *
   * A failed step is undone. The model, its running statistics, generators and learning rates are restored, and the next call
   * repeats the same batch. If only the end of the epoch failed, the next call ends the epoch.
   *
   * @example
   * ```ts
   * for (let step; (step = await trainer.nextStep()); ) console.log(await step.loss.item());
   * ```
   *
   * @throws Errors of `forward` and of the data, unchanged; `InvalidState` if a loss of the epoch was not finite, or the
   * trainer is busy.
   */
  nextStep(): Promise<TrainingStep | undefined>;
  /**
   * Trains until all epochs are done or early stopping ends it. Calls `onStep` after each step and awaits it. Returns the
   * result of each epoch. The next call continues, however this one ended. To stop in between, iterate over the trainer and
   * break.
   *
   * @example
   * ```ts
   * const stop = new AbortController();
   * button.onclick = () => stop.abort();
   * await trainer.fit(({ step }) => (bar.value = step), { signal: stop.signal });
   * ```
   *
   * @throws Errors of {@link Trainer.nextStep} and of `onStep`; the signal's reason.
   */
  fit(onStep?: (step: TrainingStep) => unknown, options?: FitOptions): Promise<readonly Epoch[]>;
  /**
   * Takes a step on a batch that you pass. It counts as a step of the epoch, but the position in the trainer's own data does
   * not change. If you take all steps this way, end epochs with {@link Trainer.endEpoch}.
   *
   * @example
   * ```ts
   * const { loss } = await trainer.step(x, y);
   * ```
   *
   * @throws Errors of {@link Trainer.nextStep}.
   */
  step(x: Tensor, y: Tensor): Promise<TrainingStep>;
  /**
   * Ends an epoch: reads its mean loss, validates, and begins the next epoch. {@link Trainer.nextStep} calls it automatically.
   *
   * @example
   * ```ts
   * const { loss, validation } = await trainer.endEpoch();
   * ```
   *
   * @throws Errors of {@link Trainer.nextStep}; `InvalidState` if the epoch has no steps.
   */
  endEpoch(): Promise<Epoch>;
  /**
   * Computes the mean loss and the metrics over these data, in evaluation mode. Then returns the model to training mode.
   *
   * @example
   * ```ts
   * const { loss, metrics } = await trainer.evaluate([xTest, yTest]);
   * console.log(loss, metrics.accuracy);
   * ```
   *
   * @throws Errors of {@link Trainer.nextStep}; `InvalidArgument` if there are no batches, or metrics without predictions.
   */
  evaluate(data: TrainingData): Promise<Scores>;
  /**
   * Writes a checkpoint as a safetensors file with notes. It has the model's values by name, and everything that is needed to
   * continue with the same bits. That includes gradients that wait for a step, and averages ({@link Optimizer.average}). The
   * Rust crate `warpweft` reads it, too.
   *
   * @example
   * ```ts
   * const file = new Blob([await trainer.save({ net: "digits" })]);
   * ```
   *
   * @throws Errors of {@link Tensor.read}; `InvalidArgument` if a parameter or a note has a reserved name.
   */
  save(notes?: Record<string, string>): Promise<Bytes>;
  /**
   * Continues from a checkpoint, and returns its notes. All current state is replaced. The model, optimizer, averages, data and
   * options must be created as for the saved training.
   *
   * @example
   * ```ts
   * await trainer.load(await fetch("checkpoint.safetensors"));
   * ```
   *
   * @throws `Format` if it is not a checkpoint of this training, `Shape` if a parameter has another shape. Nothing is loaded
   * then.
   */
  load(file: FileSource, options?: FileOptions): Promise<Record<string, string>>;
  /**
   * Stores a checkpoint in the browser, in the folder `warpweft` of the site's origin private file system. A file is replaced
   * completely or not at all, even if the page is closed meanwhile.
   *
   * @example
   * ```ts
   * await trainer.loadFrom("digits");
   * for await (const { ended } of trainer) if (ended) await trainer.saveTo("digits");
   * ```
   *
   * @throws `Unsupported` if the site has no file system, `Memory` if there is not enough space.
   */
  saveTo(name: string, notes?: Record<string, string>): Promise<void>;
  /**
   * Continues from a checkpoint that `saveTo` stored, and returns its notes. Returns undefined if the file does not exist.
   *
   * @example
   * ```ts
   * if (!(await trainer.loadFrom("digits"))) console.log("it begins");
   * ```
   *
   * @throws Errors of {@link Trainer.load}; `Unsupported` if the site has no file system.
   */
  loadFrom(name: string): Promise<Record<string, string> | undefined>;
  /** Returns `Trainer`. */
  toString(): string;
}

export declare namespace Trainer {
  /**
   * Splits data into two random parts. The second part, for validation, has `fraction` of the examples, rounded up. The seed
   * chooses them.
   *
   * @example
   * ```ts
   * const [train, validation] = Trainer.split([x, y], 0.2, 1);
   * ```
   *
   * @throws `InvalidArgument` unless both parts have an example.
   */
  export function split(data: readonly [Tensor, Tensor], fraction: number, seed: number): [[Tensor, Tensor], [Tensor, Tensor]];
}
