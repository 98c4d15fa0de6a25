/** A module, or a function that makes one tensor of one. */
export type Step = { forward(x: Tensor): Tensor } | ((x: Tensor) => Tensor);

/**
 * A part of a model. A class of one's own is a module: layers, variables and further modules among its properties (and in
 * arrays there) are its parts, and their names are its parameters' paths; so the name of a part has no dot.
 *
 * @example
 * ```ts
 * class Mlp extends Module {
 *   hidden = Layer.linear(generator, 2, 16);
 *   output = Layer.linear(generator, 16, 1);
 *   forward(x: Tensor) {
 *     return this.output.forward(this.hidden.forward(x).tanh());
 *   }
 * }
 * console.log(new Mlp().namedParameters()[0][0]); // hidden.weight
 * ```
 */
export abstract class Module {
  /** What is learnt, with the path to it; a parameter that is there under several names has the first. */
  namedParameters(): [string, Variable][];
  /** What is learnt, each once. */
  parameters(): Variable[];
  /** The number of all parameters' elements. */
  readonly parameterCount: number;
  /** The values of all parameters and buffers by their paths. */
  stateDict(): Record<string, Tensor>;
  /**
   * Takes the values of all parameters and buffers, by their paths. Types are cast. What a checkpoint of a {@link Trainer} has
   * besides the model is left aside.
   *
   * @throws `Data` that names what is missing or surplus, `Shape` if one has another shape: then nothing was taken.
   */
  loadStateDict(state: Record<string, Tensor>): void;
  /**
   * A safetensors file of {@link Module.stateDict}, with notes of the caller's.
   *
   * @example
   * ```ts
   * const file = new Blob([await model.save()]);
   * ```
   */
  save(notes?: Record<string, string>): Promise<Bytes>;
  /**
   * Takes the values from such a file, or from a checkpoint of a {@link Trainer}, whose other values are left aside; the notes
   * in it.
   *
   * @example
   * ```ts
   * await model.load(await fetch("model.safetensors"));
   * ```
   *
   * @throws As {@link Module.loadStateDict}; `Data` if it is no safetensors file.
   */
  load(file: FileSource, options?: FileOptions): Promise<Record<string, string>>;
  /**
   * Keeps such a file in the browser under a name, as {@link Trainer.saveTo} does.
   *
   * @example
   * ```ts
   * await model.saveTo("digits");
   * ```
   *
   * @throws `Unsupported` where a site has no files, `Memory` where there is no room.
   */
  saveTo(name: string, notes?: Record<string, string>): Promise<void>;
  /**
   * Takes the values from a file that `saveTo` of a module or of a {@link Trainer} kept. Returns its notes, or undefined if there
   * is none.
   *
   * @example
   * ```ts
   * if (!(await model.loadFrom("digits"))) console.log("it was not trained yet");
   * ```
   *
   * @throws As {@link Module.load}; `Unsupported` where a site has no files.
   */
  loadFrom(name: string): Promise<Record<string, string> | undefined>;
  /** Whether it trains, as `train` and `eval` of it or of what it is a part of said last. A new module does. */
  readonly training: boolean;
  /**
   * Changes to training, with all its parts: dropout drops, batch norm takes the batch's own statistics. Parts whose class has
   * a `train` of its own are changed by that.
   *
   * @example
   * ```ts
   * class Noise extends Module {
   *   forward(x: Tensor) {
   *     return this.training ? x.add(device.normal(x.shape)) : x;
   *   }
   * }
   * ```
   */
  train(): this;
  /** Changes to evaluation, with all its parts: dropout passes all, batch norm takes its running statistics. */
  eval(): this;
  /** A table of all parameters and of how many there are, for people. */
  summary(): string;
}

/** Modules and functions, one after the other: what stands at a number of it, in the order of these. Their names are these. */
export class Sequential extends Module {
  constructor(...steps: Step[]);
  [place: number]: Step;
  /** The result for `x`: an object of its own, also where its parts return what they are given. */
  forward(x: Tensor): Tensor;
}

/** A module or function whose input is added to its result. */
export class Residual extends Module {
  constructor(layer: Step);
  readonly layer: Step;
  /** `x + layer(x)`. */
  forward(x: Tensor): Tensor;
}

export interface Layer extends Module {}

export interface Optimizer {
  /**
   * What it remembers, by group, number of the parameter and name: `0.3.exp_avg`; and `steps`, one number for each group; in
   * mixed precision `loss_scale` and `good_steps`. Learning rates are not in it, nor are the other options.
   */
  stateDict(): Record<string, Tensor>;
  /**
   * Takes what `stateDict` gave of an optimiser of the same rule and parameters. A `steps` of one number is that of all groups.
   *
   * @throws `Data` that names what is missing or surplus, `Shape` if one has another shape: then nothing was taken.
   */
  loadStateDict(state: Record<string, Tensor>): Promise<void>;
}
