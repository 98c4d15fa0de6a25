/** A module, or a function from one tensor to another. */
export type Step = { forward(x: Tensor): Tensor } | ((x: Tensor) => Tensor);

/**
 * A part of a model. Extend this class to write a custom module. Properties that hold layers, variables or modules, also in
 * arrays, are its parts. Their names form the paths of the parameters, so a name must not contain a dot.
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
  /** Returns the trainable parameters with their paths. A shared parameter has its first path. */
  namedParameters(): [string, Variable][];
  /** Returns the trainable parameters, each once. */
  parameters(): Variable[];
  /** The number of elements in all parameters. */
  readonly parameterCount: number;
  /** Returns the values of all parameters and buffers by their paths. */
  stateDict(): Record<string, Tensor>;
  /**
   * Loads the values of all parameters and buffers by their paths. Types are cast. Other values in a checkpoint of a
   * {@link Trainer} are ignored.
   *
   * @throws `Format` naming missing or unknown values, `Shape` if a value has another shape. Nothing is loaded then.
   */
  loadStateDict(state: Record<string, Tensor>): void;
  /**
   * Writes a safetensors file of {@link Module.stateDict} with these notes.
   *
   * @example
   * ```ts
   * const file = new Blob([await model.save()]);
   * ```
   */
  save(notes?: Record<string, string>): Promise<Bytes>;
  /**
   * Loads the values from a safetensors file and returns its notes. The file comes from `save`, or is a checkpoint of a
   * {@link Trainer}. Other values in a checkpoint are ignored.
   *
   * @example
   * ```ts
   * await model.load(await fetch("model.safetensors"));
   * ```
   *
   * @throws Errors of {@link Module.loadStateDict}; `Format` if it is not a safetensors file.
   */
  load(file: FileSource, options?: FileOptions): Promise<Record<string, string>>;
  /**
   * Stores a file of {@link Module.save} in the browser under a name, as {@link Trainer.saveTo} does.
   *
   * @example
   * ```ts
   * await model.saveTo("digits");
   * ```
   *
   * @throws `Unsupported` if the site has no file system, `Memory` if there is not enough space.
   */
  saveTo(name: string, notes?: Record<string, string>): Promise<void>;
  /**
   * Loads the values from a file that `saveTo` of a module or a {@link Trainer} stored. Returns its notes, or undefined if
   * there is no such file.
   *
   * @example
   * ```ts
   * if (!(await model.loadFrom("digits"))) console.log("it was not trained yet");
   * ```
   *
   * @throws Errors of {@link Module.load}; `Unsupported` if the site has no file system.
   */
  loadFrom(name: string): Promise<Record<string, string> | undefined>;
  /** Whether the module is in training mode. `train` and `eval` of the module or of a parent set it. True for a new module. */
  readonly training: boolean;
  /**
   * Changes the module and all its parts to training mode. Dropout drops elements, and batch norm uses the statistics of the
   * batch. Parts whose class overrides `train` are changed by their `train`.
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
  /**
   * Changes the module and all its parts to evaluation mode. Dropout passes all elements, and batch norm uses its running
   * statistics.
   */
  eval(): this;
  /** Returns a readable table of all parameters and their number of elements. */
  summary(): string;
}

/** Modules and functions that run one after the other. The n-th part is property `n`, which is also its name in paths. */
export class Sequential extends Module {
  constructor(...steps: Step[]);
  [index: number]: Step;
  /** Returns the result for `x`. The result is a new object, even if the parts return their arguments. */
  forward(x: Tensor): Tensor;
}

/** A residual connection: adds the input of a module or function to its result. */
export class Residual extends Module {
  constructor(layer: Step);
  readonly layer: Step;
  /** Returns `x + layer(x)`. */
  forward(x: Tensor): Tensor;
}

export interface Layer extends Module {}

export interface Optimizer {
  /**
   * Returns the optimizer's state by name. A name has the group, the number of the parameter and the value, such as
   * `0.3.exp_avg`. `steps` has one number for each group. Mixed precision adds `loss_scale`, `good_steps` and `taken_steps`,
   * {@link Optimizer.accumulate} adds gradients, and {@link Optimizer.average} adds averages. Learning rates and other options
   * are not included.
   */
  stateDict(): Record<string, Tensor>;
  /**
   * Loads a state of an optimizer with the same rule and parameters. If `steps` is one number, it applies to all groups.
   *
   * @throws `Format` naming missing or unknown values, `Shape` if a value has another shape. Nothing is loaded then.
   */
  loadStateDict(state: Record<string, Tensor>): Promise<void>;
}
