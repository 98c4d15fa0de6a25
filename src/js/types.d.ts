/**
 * The type of a tensor's elements: 32-bit float; 16-bit float, which is a storage type and computed as `f32`; 32-bit
 * integers, which wrap on overflow; `bool`; and integers of 8 and 16 bits, which are storage types: they are moved,
 * compared for equality, chosen from and cast, other operations ask for a cast first.
 */
export type DType = "f32" | "f16" | "i32" | "u32" | "bool" | "i8" | "u8" | "i16" | "u16";

/** Extents, outermost first; at most eight. */
export type Shape = readonly number[];

/** One axis, several, or (left out) all. Negative ones count from the end, -1 being the last. */
export type Axes = number | readonly number[];

/** An operand: a tensor of the same device, or a number that takes the tensors' type (booleans are 1 and 0). */
export type Operand = Tensor | number | boolean;

/** A number for every axis that a window moves over, or one for each. */
export type PerAxis = number | readonly number[];

/**
 * How far the input is extended: as many elements on each side of every axis, of each axis, or before and after each
 * axis; `"valid"` for none; `"same"` for as many as give the input's extents divided by the stride, an odd one going to
 * the end.
 */
export type Padding = PerAxis | readonly (readonly [before: number, after: number])[] | "same" | "valid";

/** What a tensor of a type is read into: `f16` as `f32`, `bool` as 0 and 1. */
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

/** Bytes of a file, in memory that nothing else shares: `new Blob([bytes])` takes them. */
export type Bytes = ReturnType<Uint8Array["slice"]>;

/** What any tensor is read into. */
export type TensorData = DataOf[DType];

/** Numbers or booleans, nested as deep as the tensor has axes. */
export type NestedArray = readonly (number | boolean | bigint | NestedArray)[];

/** Arrays whose elements have a type of their own. */
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
 * What a tensor can be made from. `Float32Array`, `Float64Array` are `f32`, `Float16Array` is `f16`; signed integers are
 * `i32`, unsigned ones (`Uint8Array` too) `u32`, unless the `dtype` beside them says otherwise (`i8`, `u16`); of plain
 * values, booleans are `bool`, bigints `i32` and numbers `f32`. An `ArrayBuffer` has the elements of the `dtype` beside it, as they
 * are read (`f16` in two bytes, `bool` in one).
 */
export type TensorSource = number | boolean | bigint | NestedArray | TypedArray | ArrayBuffer;

/** The type of a tensor that is made from something. */
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

/** Elements, and the positions along the axis that they were at. */
export interface Ordered<D extends DType = DType> {
  values: Tensor<D>;
  indices: Tensor<"i32">;
}

/** The parameters of {@link Tensor.attention}. */
export interface AttentionOptions {
  /** Whether the i-th query sees only keys up to `i + keys - queries`. Default: false. */
  causal?: boolean;
  /** The i-th query sees only keys less than this far from its own place, `i + keys - queries`. Default: any distance. */
  window?: number;
  /** Broadcast to `[batch, heads, queries, keys]`: `bool` (true sees), or floats added to the scores. */
  mask?: Tensor;
  /** What the scores are multiplied with. Default: `1 / sqrt(size)`. */
  scale?: number;
  /**
   * How many keys count, from the first on; `keys` above means those. So k and v can be a cache that is longer than what is
   * in it: the rest makes no difference. The number is data: another one is no other plan. Default: all.
   */
  kvLength?: number;
}

/**
 * What is made of the elements around a place: the one before or after it, the nearest one (of two the one before or
 * after), the two around it, or the four, by the cubic convolution of Keys (1981).
 */
export type Filter = "floor" | "ceil" | "half-down" | "half-up" | "linear" | "cubic";

/** The parameters of {@link Tensor.resample}. */
export interface ResampleOptions {
  /** The place of the first element of the result. Default: 0. */
  first?: number;
  /** How far it is from there to the next one's. Default: 1. */
  step?: number;
  /** Default: `"linear"`. */
  filter?: Filter;
  /** Of the cubic filter, its slope at distance 1. Default: -0.75. */
  sharpness?: number;
  /** Whether a filter is as much wider as a step is more than 1. Default: false. */
  antialias?: boolean;
  /** Whether what is beyond the edges counts for nothing; else the outermost elements go on. Default: false. */
  inside?: boolean;
}

/** An input of a program. */
export interface InputSpec {
  /** Extents; a name instead of one stands for any, and the same name for the same one in all inputs of a run. */
  shape: readonly (number | string)[];
  /** Default: `"f32"`. */
  dtype?: DType;
}

export interface Tensor<D extends DType = DType> {
  /** Its extents, outermost first. */
  readonly shape: Shape;
  /** All elements, nested as deep as there are axes: what `device.tensor` takes. A number where there are none. */
  readNested(): Promise<number | NestedArray>;
  /**
   * The same values on another device, of whatever kind both are: from the GPU to the CPU and back. They are computed and
   * read here, and written there; what is recorded on the result is that device's, and gradients do not pass it.
   *
   * ```ts
   * const cpu = await Device.new({ prefer: "cpu" });
   * const there = await tensor.to(cpu);
   * ```
   */
  to(device: Device): Promise<Tensor<D>>;
  /**
   * The buffer that the tensor lies in, for shaders of the page's own that read it: on the page's `GPUDevice` after
   * {@link Device.from}. The tensor is computed if it was not, and all work for it submitted, so that what the page submits
   * next sees it; nothing is copied, and nothing waits. Elements are row-major without gaps, `bool` as 32-bit 0 or 1.
   *
   * The buffer has the usages `STORAGE`, `COPY_SRC` and `COPY_DST`, may be longer than the tensor, and is to be read alone:
   * other tensors may be computed from it. It stays the tensor's until it is disposed of, or the device is. What goes wrong
   * while it is computed, the next read tells.
   *
   * ```js
   * const shared = tensor.gpuBuffer();
   * const binding = { buffer: shared.buffer, size: shared.byteLength };
   * // ... a bind group, a pass, gpu.queue.submit(...)
   * shared.dispose();
   * ```
   *
   * @throws `Unsupported` where the tensor is not on a GPU.
   */
  gpuBuffer(): SharedBuffer;
  /**
   * What `work` makes of this tensor, computed again for gradients rather than kept until then: the values in between take no
   * memory while the rest of a net is computed, and time for computing them twice. (`torch.utils.checkpoint`; Chen and others
   * 2016.) Values and gradients are the same as without, those of variables that `work` uses included. The result is an object
   * of its own, also where `work` returns its argument.
   *
   * ```ts
   * const model = new Sequential(...blocks.map((block) => (x: Tensor) => x.checkpoint((x) => block.forward(x))));
   * ```
   *
   * @throws What `work` throws; `Data` if it gives no tensor of this device.
   */
  checkpoint(work: (x: Tensor) => Tensor): Tensor;
  /** Reads it, and gives its numbers as text, as NumPy shows them: of a large tensor the corners. */
  text(options?: { decimals?: number; most?: number }): Promise<string>;
  /** Reads it, and prints its numbers on the console, as {@link Tensor.text} gives them. */
  print(options?: { decimals?: number; most?: number }): Promise<void>;
  /** `Tensor(f32 [2, 3] on webgpu)`. */
  toString(): string;
}

export interface Device {
  /** What it is. */
  readonly info: DeviceInfo;
  /** What it can do. */
  readonly limits: DeviceLimits;
  /** Why it is the CPU, where a GPU was to be expected. */
  readonly fallback: string | undefined;

  /**
   * A tensor of this data, row-major. The default shape is that of the data: none for a number, the nesting of arrays, the
   * length of a typed array. One extent of a given shape may be -1. The default type is that of the data, too.
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
   * A tensor of what lies in a buffer of the page's own, from its beginning, row-major; `bool` as 32-bit 0 or 1. Nothing is
   * copied, and the buffer stays the page's. It needs the usages `STORAGE` and `COPY_SRC`, and as many bytes as the tensor,
   * rounded up to a multiple of 16: kernels read whole vectors.
   *
   * A tensor does not change, so what it is computed into may be computed early, late or again. Whoever writes to the buffer
   * afterwards makes a tensor of it anew, which costs next to nothing, best as the value of a {@link Variable}; what the old
   * one is needed for is run before.
   *
   * ```js
   * const seen = new Variable(device.tensorFromBuffer(buffer, { shape: [64, 3] }));
   * gpu.queue.writeBuffer(buffer, 0, positions);                        // The page writes,
   * seen.assign(device.tensorFromBuffer(buffer, { shape: [64, 3] }));   // and says so.
   * ```
   *
   * @throws `Data` where it is no `GPUBuffer`, mapped, too small or lacks a usage. Of a buffer that was destroyed or is
   * another device's, reading tells.
   */
  tensorFromBuffer<T extends DType = "f32">(buffer: GpuBuffer, spec: BufferSpec<T>): Tensor<T>;

  /**
   * The tensors of a safetensors file, and the notes in it. `BF16` becomes `f32`, which holds it exactly. Files are not
   * trusted: a damaged one is an error that says what is wrong and where.
   *
   * ```ts
   * const { tensors } = await device.loadSafetensors(await fetch("model.safetensors"));
   * model.loadStateDict(tensors);
   * ```
   *
   * A tensor of a type that no tensor here holds, such as `F8_E4M3`, is not loaded; `skipped` has its name, type and place.
   *
   * The promise rejects with `Data` if the file is damaged, with the tensor's name, or is something else, as a web page is.
   */
  loadSafetensors(source: FileSource, options?: FileOptions): Promise<Safetensors>;
  /**
   * A safetensors file of these tensors and notes.
   *
   * ```ts
   * const bytes = await device.saveSafetensors(model.stateDict());
   * link.href = URL.createObjectURL(new Blob([bytes]));
   * ```
   */
  saveSafetensors(tensors: Record<string, Tensor>, metadata?: Record<string, string>): Promise<Bytes>;
  /** The array of a `.npy` file of NumPy's. The promise rejects with `Data` if the file is damaged. */
  loadNpy(source: FileSource): Promise<Tensor>;
  /** The arrays of an `.npz` file of NumPy's by their names. */
  loadNpz(source: FileSource): Promise<Record<string, Tensor>>;
  /** An `.npz` file of these arrays. */
  saveNpz(tensors: Record<string, Tensor>, options?: { compressed?: boolean }): Promise<Bytes>;

  /**
   * All elements of several tensors, in order, each as {@link Tensor.read} gives them: they are computed as one batch, and
   * read as one submission. One that is named twice is read twice.
   *
   * ```ts
   * const [loss, scores] = await device.read([x.square().mean(), x.softmax(-1)]);
   * ```
   *
   * @throws `Data` if one lives on another device. The promise rejects with what went wrong on this one.
   */
  read<const T extends readonly Tensor[]>(
    tensors: T,
  ): Promise<{ -readonly [I in keyof T]: T[I] extends Tensor<infer D extends DType> ? DataOf[D] : never }>;

  /** `value` everywhere. The default type is `bool` for a boolean, and `f32` for a number. */
  full(shape: Shape | number, value: boolean): Tensor<"bool">;
  full<T extends DType = "f32">(shape: Shape | number, value: number | boolean, options?: { dtype?: T }): Tensor<T>;

  /** The whole numbers from 0 up to but not including `end`. */
  arange<T extends DType = "f32">(end: number, options?: { dtype?: T }): Tensor<T>;
  /** The numbers from `start` up to but not including `end`, `step` apart (1 by default); a `step` below 0 goes down. */
  arange<T extends DType = "f32">(start: number, end: number, step?: number, options?: { dtype?: T }): Tensor<T>;

  /**
   * Compiles a program. `build` is called once, with tensors that stand for the inputs, and returns the result or a list
   * of results. Other tensors that it uses are kept by the program as they are; those made in it are the program's, and
   * disposed of for others.
   *
   * Where an axis has a name instead of an extent, `build` is called for each new extent that a run brings, and the plans
   * of those that came last are kept. From the third on GPUs run the same kernels for all of them.
   *
   * Variables do not take what is made of the inputs, which have no data outside of the program: `build` returns it, and
   * what it is called for assigns it.
   *
   * ```ts
   * const program = device.compile([{ shape: ["n", 2] }], (x) => x.mean(0));
   * const [y] = program.run(device.tensor([[1, 2], [3, 4], [5, 6]]));
   * ```
   */
  compile(inputs: readonly InputSpec[], build: (...inputs: Tensor[]) => Tensor | readonly Tensor[]): Program;

  /**
   * Compiles a function of elements, written in WGSL: its parameters and its result are `f32` (which stands for `f16`,
   * too), `i32`, `u32` or `bool`. The last function of the source is the one; helpers, constants and structures stand before
   * it. It shares kernels with what stands before and after it.
   *
   * ```ts
   * const cube = await device.elementFunction("fn cube(x: f32) -> f32 { return x * x * x; }", {
   *   gradients: [await device.elementFunction("fn slope(x: f32) -> f32 { return 3.0 * x * x; }")],
   *   fallback: (x) => x.pow(3),
   * });
   * const y = cube.call(device.tensor([1, 2]));
   * ```
   *
   * @throws `Data` where the source is something else; the promise rejects with what the browser's compiler says, with
   * line and column.
   */
  elementFunction(source: string, options?: ElementFunctionOptions): Promise<ElementFunction>;

  /**
   * Compiles a compute shader, written in WGSL. In group 0 it binds, in this order: at 0 a uniform with numbers, if it takes
   * any (one number, or a structure of `f32`, `i32`, `u32`); then what it reads, `var<storage, read>`; then what it writes,
   * `var<storage, read_write>`: arrays of `f32`, `i32`, `u32` or `f16`. Its entry point is `main`. What it does not write may
   * be anything, and memory may reach beyond a tensor's last element: sizes are numbers or constants, not `arrayLength`.
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
   * @throws `Data` where it binds something else; the promise rejects with what the browser's compiler says, with line and
   * column.
   */
  shader(source: string, options?: ShaderOptions): Promise<Shader>;

  /**
   * Runs `work`, then frees every tensor that was made in it but those it returns (one, a list, or an object of them).
   * Intermediate results of long chains hold the memory of what they were made from until the garbage collector comes
   * by: a loop that runs for long does its steps in scopes. `work` must not be async.
   *
   * ```ts
   * weight = device.scope(() => weight.sub(gradient.mul(rate)));
   * ```
   */
  scope<T>(work: () => T): T;

  /**
   * Has the device run the kernels that are fastest on it, where there are several for the same work: as an earlier visit
   * measured them in this browser (they are kept in IndexedDB), or else, and if `again`, by measuring. That took 45
   * seconds on a software GPU; nobody has timed it on a real one. Programs that were compiled before keep their
   * kernels.
   *
   * ```ts
   * const { kernelConfig, measured } = await device.tune();
   * console.log(measured ? "measured" : "known", kernelConfig);
   * ```
   */
  tune(options?: TuneOptions): Promise<Tuned>;

  /**
   * Does `work`, and says what the device did for it and how long that took: by kernel on the device, by phase on the host. It
   * ends when all is done that the work recorded and that is still there. What was recorded before is done before.
   *
   * By timestamps of a GPU each kernel gets a pass of its own while this lasts, which takes longer than many in one. Browsers
   * round times: of kernels that take less than {@link ProfileData.resolution} only sums over many runs mean something. While
   * Chromium's Performance panel records, what ran is there, too.
   *
   * ```ts
   * const { value, profile } = await device.profile(() => x.matmul(w).relu());
   * console.log(profile.text);
   * ```
   *
   * @throws What the work throws; `Data` if the device is being profiled already.
   */
  profile<T>(work: () => T | Promise<T>): Promise<{ value: T; profile: Profile }>;

  /** `Device(webgpu: NVIDIA H200)`. */
  toString(): string;
}

/** What a kernel took and did while it was profiled; times in milliseconds. */
export interface KernelProfile {
  /** `map`, `row`, `matmul`, `conv2d` or `attention`. */
  readonly kind: string;
  /** The operations it stands for: `matmul[8,4]x[4,2] + add + relu`. */
  readonly label: string;
  /** How often it ran. */
  readonly runs: number;
  /** The runs that have a time. */
  readonly timed: number;
  /** What these took together. */
  readonly time: number;
  /** What a run took on average. */
  readonly mean: number;
  /** Bytes that all runs read, each once however often it is read. */
  readonly bytesRead: number;
  /** Bytes that they wrote. */
  readonly bytesWritten: number;
  /** Whether these are the bytes exactly; otherwise they are the most it can be. */
  readonly exactBytes: boolean;
  /** Floating-point operations of all runs. */
  readonly flops: number;
  readonly bytesPerSecond?: number;
  readonly flopsPerSecond?: number;
  /** The part of the device's speed of copying; there after {@link Device.measureCeilings}, as the next one. */
  readonly copyShare?: number;
  /** The part of its speed of multiplying matrices. */
  readonly productShare?: number;
}

/** What a device did while something was profiled; times in milliseconds. */
export interface ProfileData {
  readonly device: DeviceInfo;
  /**
   * What the times of kernels were taken by: the GPU's `timestamps`; the `host`'s clock, of the CPU; of `submissions` alone,
   * where a GPU has no timestamps; or `none`.
   */
  readonly clock: "timestamps" | "host" | "submissions" | "none";
  /** The time between two that the clock tells apart. */
  readonly resolution: number;
  /** From the beginning until all work was done. */
  readonly total: number;
  /** What the kernels took together. */
  readonly deviceTime: number;
  /** What the host took. What is left of the total is the page's own. */
  readonly host: Readonly<Record<"recording" | "planning" | "compiling" | "uploading" | "submitting" | "waiting", number>>;
  /** Operations recorded. */
  readonly operations: number;
  /** Batches submitted. */
  readonly submissions: number;
  /** Runs of kernels without a time. */
  readonly untimed: number;
  /** The most the device can do, after {@link Device.measureCeilings}. */
  readonly ceilings?: { readonly bytesPerSecond: number; readonly flopsPerSecond: number };
  /** What took longest first. */
  readonly kernels: readonly KernelProfile[];
}

export interface Profile {
  /** All but the time line. */
  toJSON(): ProfileData;
  /** The same as `text`. */
  toString(): string;
}

export interface Batch {
  /**
   * Adds a result.
   *
   * @throws `Data` if it lives on another device.
   */
  add(tensor: Tensor): this;
}

/** What an element function may be given. */
export interface ElementFunctionOptions {
  /**
   * The derivatives by each parameter: functions of the same parameters, or of these and the function's result, that give
   * `f32`. The one by an integer may be any.
   */
  gradients?: readonly ElementFunction[];
  /**
   * What is computed in its place on the CPU, which takes no WGSL in a browser. It must give what the function gives: a tensor of
   * the shape that the operands broadcast to, and of the type of the function's result.
   */
  fallback?: (...operands: Tensor[]) => Tensor;
}

/** Tensors by the names that a shader has for them. */
export type Tensors = Record<string, Tensor>;

/** What a shader may be given. */
export interface ShaderOptions {
  /**
   * The gradients by its inputs, of these, its results, and the gradients of those. It is called once for inputs of the same
   * shapes, with tensors that stand for them, and may use no others.
   */
  gradient?: (inputs: Tensors, outputs: Tensors, gradients: Tensors) => Tensors;
  /** What is computed in its place on the CPU. */
  fallback?: (inputs: Tensors, params: Record<string, number>) => Tensors;
}

/** What a run of a shader takes. */
export interface ShaderRun {
  inputs: Tensors;
  /** The shapes of what it writes. */
  outputs: Record<string, Shape>;
  /** How many workgroups it has along each dimension: one to three. */
  workgroups: readonly number[];
  params?: Record<string, number>;
}

export interface Shader {
  /**
   * Records a run: its results by name.
   *
   * @throws `Data` for names that it does not have or that are missing, `DType`, `Shape` for what has no elements, `Limit`
   * for more workgroups than the device takes, `Unsupported` on a CPU without a fallback.
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
   * A device on the page's own `GPUDevice`, with the features and limits that it was opened with: the page's shaders and
   * tensors work on the same memory ({@link Tensor.gpuBuffer}, {@link Device.tensorFromBuffer}), in the order in which work
   * is submitted. What the page made stays the page's: disposing of this device ends the tensors on it, and nothing else.
   *
   * ```ts
   * const adapter = await navigator.gpu.requestAdapter();
   * const gpu = await adapter!.requestDevice();
   * const device = await Device.from(gpu);
   * ```
   *
   * @throws `Data` where it is no `GPUDevice`, `DeviceLost` where it was lost, `Limit` where it was opened with too little.
   */
  export function from(device: GpuDevice, options?: ShareOptions): Promise<Device>;
  /**
   * Every device there is, the recommended one first, and WebGPU where it offers none; with a reason beside each that is not
   * taken. Opens and loads nothing. Browsers do not tell how much memory a GPU has.
   *
   * ```ts
   * for (const { info, recommended, reason } of await Device.discover()) {
   *   console.log(recommended ? "*" : " ", info.backend, info.name, info.kind, reason ?? "");
   * }
   * ```
   */
  export function discover(): Promise<Found[]>;
  /** Whether there is a GPU. Opens and loads nothing. */
  export function isAvailable(): Promise<boolean>;
  export { create as new };
}
