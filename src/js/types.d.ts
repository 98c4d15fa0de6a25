/**
 * The type of a tensor's elements.
 *
 * - `f32`: 32-bit float.
 * - `f16`: 16-bit float, a storage type whose operations are computed in `f32`.
 * - `i32`, `u32`: 32-bit integers, which wrap on overflow.
 * - `bool`: true or false.
 * - `i8`, `u8`, `i16`, `u16`: storage types. They can be moved, compared for equality, selected, cast, and reduced by `sum`,
 *   `prod`, `max` and `min`. Cast them before most other operations.
 */
export type DType = "f32" | "f16" | "i32" | "u32" | "bool" | "i8" | "u8" | "i16" | "u16";

/** The sizes of a tensor's axes, outermost first. A tensor has at most eight axes. */
export type Shape = readonly number[];

/** One axis, several axes, or all axes if omitted. Negative axes count from the end, and -1 is the last axis. */
export type Axes = number | readonly number[];

/** An operand: a tensor of the same device, or a number that is converted to the tensors' type. Booleans are 1 and 0. */
export type Operand = Tensor | number | boolean;

/** A number for all spatial axes of a window, or a list with one number for each axis. */
export type PerAxis = number | readonly number[];

/**
 * The padding of the input's spatial axes.
 *
 * - A number: this many elements on both sides of every axis.
 * - A list of numbers: one amount for each axis, on both of its sides.
 * - A list of pairs: the amounts before and after each axis.
 * - `"valid"`: no padding.
 * - `"same"`: the result has the input's size divided by the stride, rounded up. An odd element is added at the end.
 */
export type Padding = PerAxis | readonly (readonly [before: number, after: number])[] | "same" | "valid";

/** The array type that a tensor of each type is read into. `f16` becomes `f32`, and `bool` becomes 0 and 1. */
export interface DataOf {
  f32: Float32Array;
  f16: Float32Array;
  i32: Int32Array;
  u32: Uint32Array;
  bool: Uint8Array;
  i8: Int8Array;
  u8: Uint8Array;
  i16: Int16Array;
  u16: Uint16Array;
}

/** The type of a sum or product of elements of each type. */
export interface SumOf {
  f32: "f32";
  f16: "f16";
  i32: "i32";
  u32: "u32";
  bool: "i32";
  i8: "i32";
  u8: "i32";
  i16: "i32";
  u16: "i32";
}

/** The type of a quotient of elements of each type. */
export interface QuotientOf {
  f32: "f32";
  f16: "f16";
  i32: "f32";
  u32: "f32";
  bool: "f32";
  i8: "f32";
  u8: "f32";
  i16: "f32";
  u16: "f32";
}

/** The bytes of a file, in a buffer that is not shared, so that `new Blob([bytes])` accepts them. */
export type Bytes = ReturnType<Uint8Array["slice"]>;

/** The array types that tensors are read into. */
export type TensorData = DataOf[DType];

/** Numbers or booleans, nested as deep as the tensor has axes. */
export type NestedArray = readonly (number | boolean | bigint | NestedArray)[];

/** Arrays whose elements have a fixed type. */
export type TypedArray =
  | Float32Array
  | Float64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint8ClampedArray
  | Uint16Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/**
 * The data that a tensor can be made from. Without a `dtype`, the tensor gets the type of the data.
 *
 * - `Float32Array` and `Float64Array` become `f32`, and `Float16Array` becomes `f16`.
 * - Arrays of signed integers become `i32`, and arrays of unsigned integers (also `Uint8Array`) become `u32`. Pass `dtype` for
 *   another type, such as `i8` or `u16`.
 * - Plain booleans become `bool`, bigints `i32`, and numbers `f32`.
 * - An `ArrayBuffer` holds elements of the `dtype` that is passed with it. An `f16` takes two bytes, and a `bool` one.
 */
export type TensorSource = number | boolean | bigint | NestedArray | TypedArray | ArrayBuffer;

/** The type of a tensor that is made from data of type `S`. */
export type TypeOf<S> = S extends Float32Array | Float64Array
  ? "f32"
  : S extends Int8Array | Int16Array | Int32Array | BigInt64Array
    ? "i32"
    : S extends Uint8Array | Uint8ClampedArray | Uint16Array | Uint32Array | BigUint64Array
      ? "u32"
      : S extends number
        ? "f32"
        : S extends boolean
          ? "bool"
          : S extends readonly number[] | readonly (readonly number[])[]
            ? "f32"
            : DType;

/** Sorted or selected elements, and their positions along the axis. */
export interface Ordered<D extends DType = DType> {
  values: Tensor<D>;
  indices: Tensor<"i32">;
}

/**
 * The interpolation filter: how elements around a position become one element.
 *
 * - `"floor"`, `"ceil"`: the element before or after the position.
 * - `"half-down"`, `"half-up"`: the nearest element. Between two equally near elements, the one before or after.
 * - `"linear"`: the two elements around the position.
 * - `"cubic"`: the four elements around the position, by cubic convolution (Keys 1981).
 */
export type Filter = "floor" | "ceil" | "half-down" | "half-up" | "linear" | "cubic";

/** The parameters of {@link Tensor.resample}. */
export interface ResampleOptions {
  /** The position of the result's first element, in elements of the input. Default: 0. */
  first?: number;
  /** The distance between the positions of two neighboring result elements. Default: 1. */
  step?: number;
  /** The interpolation filter. Default: `"linear"`. */
  filter?: Filter;
  /** The slope of the cubic filter at distance 1. Default: -0.75. */
  sharpness?: number;
  /** Whether a linear or cubic filter is widened by the step, if the step is more than 1. Default: false. */
  antialias?: boolean;
  /** Whether elements beyond the edges are ignored. Otherwise the edge elements are repeated. Default: false. */
  inside?: boolean;
}

/** An input of a program. */
export interface InputSpec {
  /**
   * The sizes of its axes. A name instead of a number allows any size, and equal names mean equal sizes in all inputs of a run.
   */
  shape: readonly (number | string)[];
  /** The element type. Default: `"f32"`. */
  dtype?: DType;
}

export interface Tensor<D extends DType = DType> {
  /** The sizes of the axes, outermost first. */
  readonly shape: Shape;
  /** Reads all elements as nested arrays, in the form that `device.tensor` accepts. A tensor without axes gives a number. */
  readNested(): Promise<number | NestedArray>;
  /**
   * Copies the tensor to another device of any kind, such as from the GPU to the CPU. The values are computed and read here,
   * and then uploaded there. Gradients do not pass through the copy.
   *
   * ```ts
   * const cpu = await Device.new({ prefer: "cpu" });
   * const there = await tensor.to(cpu);
   * ```
   */
  to(device: Device): Promise<Tensor<D>>;
  /**
   * Gives shaders of the page access to the tensor's buffer, without a copy. The device must share the page's `GPUDevice`
   * ({@link Device.from}).
   *
   * The tensor is computed and its work submitted, so work that the page submits later sees the values. Nothing waits. Elements
   * are row-major without gaps, and `bool` is a 32-bit 0 or 1.
   *
   * The buffer has the usages `STORAGE`, `COPY_SRC` and `COPY_DST`, and may be longer than the tensor. Shaders must only read
   * it, because other tensors may be computed from it. The buffer belongs to the tensor until the result of this call, or the
   * device, is disposed of. Errors of the computation are reported by the next read.
   *
   * ```js
   * const shared = tensor.gpuBuffer();
   * const binding = { buffer: shared.buffer, size: shared.byteLength };
   * // ... a bind group, a pass, gpu.queue.submit(...)
   * shared.dispose();
   * ```
   *
   * @throws `Unsupported` if the tensor is not on a GPU.
   */
  gpuBuffer(): SharedBuffer;
  /**
   * Runs `work` on this tensor without keeping its intermediate values for gradients. They are computed again when gradients
   * are needed, which saves memory and takes time. (`torch.utils.checkpoint`; Chen and others 2016.)
   *
   * Values and gradients are the same as without a checkpoint, also for variables that `work` uses. The result is a new object,
   * even if `work` returns its argument.
   *
   * ```ts
   * const model = new Sequential(...blocks.map((block) => (x: Tensor) => x.checkpoint((x) => block.forward(x))));
   * ```
   *
   * @throws Errors of `work`; `InvalidArgument` if the result is not a tensor of this device.
   */
  checkpoint(work: (x: Tensor) => Tensor): Tensor;
  /** Reads the tensor and formats its numbers as text, as NumPy does. Large tensors show only their corners. */
  text(options?: { precision?: number; threshold?: number }): Promise<string>;
  /** Reads the tensor and prints its numbers on the console, formatted as by {@link Tensor.text}. */
  print(options?: { precision?: number; threshold?: number }): Promise<void>;
  /** Returns a short description, such as `Tensor(f32 [2, 3] on webgpu)`. */
  toString(): string;
}

export interface Device {
  /** The name and kind of the device. */
  readonly info: DeviceInfo;
  /** The limits and features of the device. */
  readonly limits: DeviceLimits;
  /** Why the device is the CPU although a GPU was expected. Undefined otherwise. */
  readonly fallback: string | undefined;

  /**
   * Makes a tensor from data, in row-major order. The default shape follows from the data: no axes for a number, the nesting of
   * arrays, the length of a typed array. One size of a given shape may be -1, and is then computed. The default type follows
   * from the data, too.
   *
   * ```ts
   * device.tensor([[1, 2, 3], [4, 5, 6]]);                   // f32 [2, 3]
   * device.tensor(new Int32Array([1, 2, 3, 4]), [2, 2]);     // i32 [2, 2]
   * device.tensor([1, 0, 1], [3], "bool");
   * ```
   */
  tensor<S extends TensorSource>(data: S, shape?: Shape): Tensor<TypeOf<S>>;
  tensor<T extends DType>(data: TensorSource, shape: Shape | undefined, dtype: T): Tensor<T>;

  /**
   * Makes a tensor from a buffer of the page, without a copy. Elements begin at the buffer's start and are row-major, and
   * `bool` is a 32-bit 0 or 1. The buffer remains the page's.
   *
   * The buffer needs the usages `STORAGE` and `COPY_SRC`. It must have the tensor's bytes, rounded up to a multiple of 16,
   * because kernels read whole vectors.
   *
   * Tensors are immutable, and a tensor computed from another may be computed early, late or again. After writing to the
   * buffer, make a new tensor from it, which is cheap, and assign it to a {@link Variable}. Before writing, run the work that
   * needs the old values.
   *
   * ```js
   * const seen = new Variable(device.tensorFromBuffer(buffer, { shape: [64, 3] }));
   * gpu.queue.writeBuffer(buffer, 0, positions);                        // The page writes,
   * seen.assign(device.tensorFromBuffer(buffer, { shape: [64, 3] }));   // and says so.
   * ```
   *
   * @throws `InvalidArgument` if the buffer is not a `GPUBuffer`, is mapped, is too small, or lacks a usage. If it was
   * destroyed or belongs to another device, the next read rejects.
   */
  tensorFromBuffer<T extends DType = "f32">(buffer: GpuBuffer, spec: BufferSpec<T>): Tensor<T>;

  /**
   * Loads the tensors and the metadata of a safetensors file. `BF16` becomes `f32`, which holds its values exactly. Files are
   * not trusted. The error for a damaged file names the problem and its position.
   *
   * ```ts
   * const { tensors } = await device.loadSafetensors(await fetch("model.safetensors"));
   * model.loadStateDict(tensors);
   * ```
   *
   * Tensors of other types, such as `F8_E4M3`, are not loaded. `skipped` lists their names, types and positions.
   *
   * The promise rejects with `Format` if the file is damaged, naming the tensor, or if it is another kind of file, such as a
   * web page.
   */
  loadSafetensors(source: FileSource, options?: FileOptions): Promise<Safetensors>;
  /**
   * Writes a safetensors file with these tensors and metadata.
   *
   * ```ts
   * const bytes = await device.saveSafetensors(model.stateDict());
   * link.href = URL.createObjectURL(new Blob([bytes]));
   * ```
   */
  saveSafetensors(tensors: Record<string, Tensor>, metadata?: Record<string, string>): Promise<Bytes>;
  /** Loads the array of a NumPy `.npy` file. The promise rejects with `Format` if the file is damaged. */
  loadNpy(source: FileSource): Promise<Tensor>;
  /** Loads the arrays of a NumPy `.npz` file, by their names. */
  loadNpz(source: FileSource): Promise<Record<string, Tensor>>;
  /** Writes an `.npz` file with these arrays. */
  saveNpz(tensors: Record<string, Tensor>, options?: { compressed?: boolean }): Promise<Bytes>;

  /**
   * Reads all elements of several tensors, in order, each as by {@link Tensor.read}. The tensors are computed as one batch and
   * read in one submission. A tensor that is listed twice is read twice.
   *
   * ```ts
   * const [loss, scores] = await device.read([x.square().mean(), x.softmax(-1)]);
   * ```
   *
   * @throws `InvalidArgument` if a tensor is on another device. The promise rejects with errors of this device.
   */
  read<const T extends readonly Tensor[]>(
    tensors: T,
  ): Promise<{ -readonly [I in keyof T]: T[I] extends Tensor<infer D extends DType> ? DataOf[D] : never }>;

  /** Makes a tensor filled with `value`. The default type is `bool` for a boolean, and `f32` for a number. */
  full(shape: Shape | number, value: boolean): Tensor<"bool">;
  full<T extends DType = "f32">(shape: Shape | number, value: number | boolean, options?: { dtype?: T }): Tensor<T>;

  /** Makes a tensor of the integers from 0 up to, but not including, `end`. */
  arange<T extends DType = "f32">(end: number, options?: { dtype?: T }): Tensor<T>;
  /**
   * Makes a tensor of the numbers from `start` up to, but not including, `end`. They are `step` apart (1 by default), and a
   * negative `step` counts down.
   */
  arange<T extends DType = "f32">(start: number, end: number, step?: number, options?: { dtype?: T }): Tensor<T>;

  /**
   * Compiles a program. `build` is called once with placeholder tensors for the inputs, and returns one result or a list of
   * results. The program keeps other tensors that `build` uses. Tensors that `build` makes are disposed of afterwards.
   *
   * If an axis has a name instead of a size, `build` is called again for each new size. The plans of the most recent sizes are
   * kept. From the third size on, GPUs run the same kernels for all sizes.
   *
   * A variable that `build` reads has its current value at each run. Assignments to variables in `build` happen at each run,
   * and not while the program is compiled.
   *
   * ```ts
   * const program = device.compile([{ shape: ["n", 2] }], (x) => x.mean(0));
   * const [y] = program.run(device.tensor([[1, 2], [3, 4], [5, 6]]));
   * ```
   */
  compile(inputs: readonly InputSpec[], build: (...inputs: Tensor[]) => Tensor | readonly Tensor[]): Program;

  /**
   * Compiles an elementwise function from WGSL source. Parameters and the result are `f32` (also for `f16` tensors), `i32`,
   * `u32` or `bool`. The last function of the source is compiled; helpers, constants and structures come before it. Calls fuse
   * with neighboring operations.
   *
   * ```ts
   * const cube = await device.elementFunction("fn cube(x: f32) -> f32 { return x * x * x; }", {
   *   gradients: [await device.elementFunction("fn slope(x: f32) -> f32 { return 3.0 * x * x; }")],
   *   fallback: (x) => x.pow(3),
   * });
   * const y = cube.call(device.tensor([1, 2]));
   * ```
   *
   * @throws `InvalidArgument` if the source has another form. The promise rejects with the browser compiler's message, with
   * line and column.
   */
  elementFunction(source: string, options?: ElementFunctionOptions): Promise<ElementFunction>;

  /**
   * Compiles a compute shader from WGSL source. Its entry point is `main`. In group 0, it binds in this order:
   *
   * - at binding 0 a uniform with the params, if it has any: one number, or a structure of `f32`, `i32` and `u32`;
   * - the inputs as `var<storage, read>` arrays of `f32`, `i32`, `u32` or `f16`;
   * - the outputs as `var<storage, read_write>` arrays of these types.
   *
   * Elements that the shader does not write are undefined. Buffers may be longer than their tensors. Pass sizes as params or
   * constants, because `arrayLength` may be too large.
   *
   * ```ts
   * const twice = await device.shader(`
   *   @group(0) @binding(0) var<uniform> size: u32;
   *   @group(0) @binding(1) var<storage, read> x: array<f32>;
   *   @group(0) @binding(2) var<storage, read_write> y: array<f32>;
   *   @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
   *     if (id.x < size) { y[id.x] = 2.0 * x[id.x]; }
   *   }`, { fallback: ({ x }) => ({ y: x!.mul(2) }) });
   * const x = device.tensor([1, 2, 3]);
   * const { y } = twice.run({ inputs: { x }, outputs: { y: [3] }, workgroups: [1], params: { size: 3 } });
   * ```
   *
   * @throws `InvalidArgument` if it has other bindings. The promise rejects with the browser compiler's message, with line and
   * column.
   */
  shader(source: string, options?: ShaderOptions): Promise<Shader>;

  /**
   * Runs `work`, and then frees every tensor made in it except those that it returns: one, a list, or an object of them.
   * Without a scope, intermediate results hold their memory until the garbage collector runs. Use one scope for each step of a
   * long loop. `work` must not be asynchronous.
   *
   * ```ts
   * weight = device.scope(() => weight.sub(gradient.mul(rate)));
   * ```
   */
  scope<T>(work: () => T): T;

  /**
   * Chooses the fastest kernels for this device, where several do the same work. Kernels that an earlier visit measured in this
   * browser are used again, from IndexedDB. Otherwise, or with `again`, they are measured, which may take a minute on slow
   * devices. Programs that are already compiled keep their kernels.
   *
   * ```ts
   * const { kernelConfig, measured } = await device.tune();
   * console.log(measured ? "measured" : "known", kernelConfig);
   * ```
   */
  tune(options?: TuneOptions): Promise<Tuned>;

  /**
   * Profiles `work`: device time by kernel, and host time by phase. The measurement ends when all operations are done that
   * `work` recorded and that are still needed. Operations that were recorded earlier are computed before it starts.
   *
   * With GPU timestamps, each kernel runs in a separate pass, which takes longer than usual. Browsers round the times. Times of
   * kernels that take less than {@link ProfileData.resolution} are therefore meaningful only as sums over many runs. If
   * Chromium's Performance panel is recording, it shows the kernels, too.
   *
   * ```ts
   * const { value, profile } = await device.profile(() => x.matmul(w).relu());
   * console.log(profile.text);
   * ```
   *
   * @throws Errors of `work`; `InvalidState` if the device is already being profiled.
   */
  profile<T>(work: () => T | Promise<T>): Promise<{ value: T; profile: Profile }>;

  /** Returns a short description, such as `Device(webgpu: NVIDIA H200)`. */
  toString(): string;
}

/** The time and the work of one kernel in a profile. Times are in milliseconds. */
export interface KernelProfile {
  /** The kind: `map`, `row`, `matmul`, `packed_matmul`, `conv2d`, `attention`, `order` (sorting) or `shader`. */
  readonly kind: string;
  /** The operations that the kernel computes, such as `matmul[8,4]x[4,2] + add + relu`. */
  readonly label: string;
  /** The number of runs. */
  readonly runs: number;
  /** The number of runs that have a time. */
  readonly timed: number;
  /** The time of all timed runs. */
  readonly time: number;
  /** The mean time of a run. */
  readonly mean: number;
  /** The bytes read by all runs. Each byte counts once per run, however often the kernel reads it. */
  readonly bytesRead: number;
  /** The bytes written by all runs. */
  readonly bytesWritten: number;
  /** Whether the numbers of bytes are exact. Otherwise they are upper bounds. */
  readonly exactBytes: boolean;
  /** The floating-point operations of all runs. */
  readonly flops: number;
  readonly bytesPerSecond?: number;
  readonly flopsPerSecond?: number;
  /** The fraction of the device's copy bandwidth. Present after {@link Device.measureCeilings}, like `productShare`. */
  readonly copyShare?: number;
  /** The fraction of the device's peak rate of matrix products. */
  readonly productShare?: number;
}

/** A profile as plain data. Times are in milliseconds. */
export interface ProfileData {
  readonly device: DeviceInfo;
  /**
   * The clock of the kernel times. `timestamps` are the GPU's, and `host` is the clock of the CPU. `submissions` means that a
   * GPU without timestamps could time only whole submissions. `none` means that there are no times.
   */
  readonly clock: "timestamps" | "host" | "submissions" | "none";
  /** The resolution of the clock: the smallest difference between two times. */
  readonly resolution: number;
  /** The time from the beginning until all work was done. */
  readonly total: number;
  /** The sum of the kernel times. */
  readonly deviceTime: number;
  /** The host time by phase. The rest of `total` is time of the page. */
  readonly host: Readonly<Record<"recording" | "planning" | "compiling" | "uploading" | "submitting" | "waiting", number>>;
  /** The number of recorded operations. */
  readonly operations: number;
  /** The number of submitted batches. */
  readonly submissions: number;
  /** The number of kernel runs without a time. */
  readonly untimed: number;
  /** The peak rates of the device, after {@link Device.measureCeilings}. */
  readonly ceilings?: { readonly bytesPerSecond: number; readonly flopsPerSecond: number };
  /** The kernels, the slowest first. */
  readonly kernels: readonly KernelProfile[];
}

export interface Profile {
  /** Returns the profile as plain data, without the timeline. */
  toJSON(): ProfileData;
  /** Returns the table that is also in `text`. */
  toString(): string;
}

export interface Batch {
  /**
   * Adds a result to the batch.
   *
   * @throws `InvalidArgument` if the tensor is on another device.
   */
  add(tensor: Tensor): this;
}

/** The options of {@link Device.elementFunction}. */
export interface ElementFunctionOptions {
  /**
   * The derivative by each parameter, as an element function that returns `f32`. Each takes the function's parameters,
   * optionally followed by its result. The derivative by an integer parameter may be any function.
   */
  gradients?: readonly ElementFunction[];
  /**
   * The replacement on the CPU, which cannot run WGSL in a browser. It must return a tensor of the shape that the operands
   * broadcast to, with the type of the function's result.
   */
  fallback?: (...operands: Tensor[]) => Tensor;
}

/** Tensors by their names in a shader. */
export type Tensors = Record<string, Tensor>;

/** The options of {@link Device.shader}. */
export interface ShaderOptions {
  /**
   * Computes the gradients of the inputs from the inputs, the outputs, and the gradients of the outputs. It is called once for
   * each set of input shapes, with placeholder tensors. It must not use other tensors.
   */
  gradient?: (inputs: Tensors, outputs: Tensors, gradients: Tensors) => Tensors;
  /** The replacement on the CPU. */
  fallback?: (inputs: Tensors, params: Record<string, number>) => Tensors;
}

/** The arguments of one run of a shader. */
export interface ShaderRun {
  inputs: Tensors;
  /** The shapes of the outputs. */
  outputs: Record<string, Shape>;
  /** The number of workgroups along each dimension. One to three numbers. */
  workgroups: readonly number[];
  params?: Record<string, number>;
}

export interface Shader {
  /**
   * Records a run and returns its results by name.
   *
   * @throws `InvalidArgument` for unknown or missing names, `DType` for inputs of another type, `Shape` for empty tensors,
   * `Limit` for more workgroups than the device supports, `Unsupported` on a CPU without a fallback.
   */
  run(run: ShaderRun): Tensors;
}

export declare namespace Device {
  /**
   * Opens a device.
   *
   * ```ts
   * const device = await Device.new();
   * if (device.fallback) console.warn(device.fallback);
   * ```
   */
  function create(options?: DeviceOptions): Promise<Device>;
  /**
   * Opens a device on the page's own `GPUDevice`, with the features and limits it was created with. The page's shaders and the
   * tensors share its memory ({@link Tensor.gpuBuffer}, {@link Device.tensorFromBuffer}). Work runs in the order of submission.
   * Disposing of the device frees its tensors, and leaves the page's objects alone.
   *
   * ```ts
   * const adapter = await navigator.gpu.requestAdapter();
   * const gpu = await adapter!.requestDevice();
   * const device = await Device.from(gpu);
   * ```
   *
   * @throws `InvalidArgument` if it is not a `GPUDevice`, `DeviceLost` if it was lost, `Limit` if its limits are too low.
   */
  export function from(device: GpuDevice, options?: ShareOptions): Promise<Device>;
  /**
   * Lists all available devices, the recommended one first. WebGPU is listed even if the browser does not offer it, with the
   * reason. Devices that are not recommended have a reason, too. Opens and loads nothing. Browsers do not report the memory of
   * a GPU.
   *
   * ```ts
   * for (const { info, recommended, reason } of await Device.discover()) {
   *   console.log(recommended ? "*" : " ", info.backend, info.name, info.kind, reason ?? "");
   * }
   * ```
   */
  export function discover(): Promise<Found[]>;
  /** Returns whether a GPU is available. A software GPU does not count. Opens and loads nothing. */
  export function isAvailable(): Promise<boolean>;
  export { create as new };
}
