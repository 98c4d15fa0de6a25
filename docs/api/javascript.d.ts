// The public declarations of the npm package, without comments. `UPDATE_EXPECT=1 npm run check -- --only API` rewrites this file.

// warpweft exports:
//   AttentionOptions
//   Axes
//   Batch
//   BinaryCrossEntropyOptions
//   BinaryCrossEntropyWithLogitsOptions
//   BufferSpec
//   Bytes
//   CacheLimits
//   ConvOptions
//   ConvTransposeOptions
//   CrossEntropyOptions
//   DType
//   DataOf
//   DequantizeOptions
//   Device
//   DeviceInfo
//   DeviceLimits
//   DeviceOptions
//   ElementFunction
//   ElementFunctionOptions
//   ErrorCode
//   FftNorm
//   FftOptions
//   FileOptions
//   FileSource
//   Filter
//   Found
//   GaussianNllOptions
//   GpuBuffer
//   GpuDevice
//   GridSampleOptions
//   HeldTensor
//   InputSpec
//   KernelProfile
//   LossReduction
//   MatrixNorm
//   MemoryReport
//   NestedArray
//   NllOptions
//   NormOptions
//   Operand
//   Ordered
//   PadMode
//   Padding
//   PerAxis
//   Plan
//   PoissonNllOptions
//   PoolOptions
//   Profile
//   ProfileData
//   Program
//   QuotientOf
//   Reduction
//   ResampleOptions
//   Resize
//   RmsNormOptions
//   Safetensors
//   SampleMode
//   SamplePadding
//   ScatterNdOptions
//   Shader
//   ShaderOptions
//   ShaderRun
//   Shape
//   ShareOptions
//   SharedBuffer
//   Skipped
//   Stats
//   SumOf
//   Tensor
//   TensorData
//   TensorSource
//   Tensors
//   TextOptions
//   TripletMarginOptions
//   TuneOptions
//   Tuned
//   TypeOf
//   TypedArray
//   Variable
//   WarpweftError
//   WasmSource
//   WasmSources
//   preload
//   setDebug

// warpweft/nn exports what warpweft exports, and:
//   Activation
//   AdaBelief
//   Adadelta
//   Adagrad
//   Adam
//   AdamW
//   Adamax
//   Anneal
//   Asgd
//   Average
//   EarlyStopping
//   Epoch
//   FitOptions
//   Forward
//   Generator
//   Lamb
//   Layer
//   LinearLrOptions
//   Lion
//   LossScale
//   Metric
//   Module
//   Muon
//   NAdam
//   Nonlinearity
//   OneCycleOptions
//   Optimizer
//   PlateauMode
//   PlateauOptions
//   RAdam
//   RecurrentOptions
//   Residual
//   RmsProp
//   Rprop
//   Schedule
//   Scores
//   Sequential
//   Sgd
//   Step
//   ThresholdMode
//   Trainer
//   TrainerOptions
//   TrainingData
//   TrainingStep
//   TransformerOptions
//   WarmRestartsOptions
//   WeightAverage
//   Yogi

// warpweft/models exports what warpweft exports, and:
//   Activation
//   AdaBelief
//   Adadelta
//   Adagrad
//   Adam
//   AdamW
//   Adamax
//   AdapterExample
//   AdapterFiles
//   AdapterOptions
//   Anneal
//   Asgd
//   Average
//   EarlyStopping
//   EmbedOptions
//   Embedder
//   EmbedderOptions
//   EmbedderSource
//   Epoch
//   Finish
//   FitOptions
//   Forward
//   GenerateOptions
//   GeneratedToken
//   Generation
//   Generator
//   KeptModel
//   Lamb
//   LanguageModel
//   Layer
//   LinearLrOptions
//   Lion
//   LoraAdapter
//   LossScale
//   Message
//   Metric
//   ModelEstimate
//   ModelFolder
//   ModelOptions
//   ModelProgress
//   ModelSource
//   Module
//   Muon
//   NAdam
//   Nonlinearity
//   OneCycleOptions
//   Optimizer
//   PlateauMode
//   PlateauOptions
//   Projection
//   RAdam
//   RecurrentOptions
//   Residual
//   RmsProp
//   Rprop
//   Schedule
//   Scores
//   Sequential
//   Sgd
//   Step
//   ThresholdMode
//   Trainer
//   TrainerOptions
//   TrainingData
//   TrainingStep
//   TransformerOptions
//   WarmRestartsOptions
//   WeightAverage
//   Yogi
//   deleteModel
//   keptModels

// warpweft/inline exports what warpweft exports, and:
//   Activation
//   AdaBelief
//   Adadelta
//   Adagrad
//   Adam
//   AdamW
//   Adamax
//   Anneal
//   Asgd
//   Average
//   EarlyStopping
//   Epoch
//   FitOptions
//   Forward
//   Generator
//   Lamb
//   Layer
//   LinearLrOptions
//   Lion
//   LossScale
//   Metric
//   Module
//   Muon
//   NAdam
//   Nonlinearity
//   OneCycleOptions
//   Optimizer
//   PlateauMode
//   PlateauOptions
//   RAdam
//   RecurrentOptions
//   Residual
//   RmsProp
//   Rprop
//   Schedule
//   Scores
//   Sequential
//   Sgd
//   Step
//   ThresholdMode
//   Trainer
//   TrainerOptions
//   TrainingData
//   TrainingStep
//   TransformerOptions
//   WarmRestartsOptions
//   WeightAverage
//   Yogi

declare global {
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
  interface GPUAdapter {}
}

export type Activation = "relu" | "gelu";

export interface AdaBelief {
    betas?: [number, number];
    eps?: number;
    lr?: number;
    weightDecay?: number;
}

export interface Adadelta {
    eps?: number;
    lr?: number;
    rho?: number;
    weightDecay?: number;
}

export interface Adagrad {
    eps?: number;
    initialAccumulatorValue?: number;
    lr?: number;
    lrDecay?: number;
    weightDecay?: number;
}

export interface Adam {
    amsgrad?: boolean;
    betas?: [number, number];
    eps?: number;
    lr?: number;
    weightDecay?: number;
}

export interface AdamW {
    amsgrad?: boolean;
    betas?: [number, number];
    eps?: number;
    lr?: number;
    weightDecay?: number;
}

export interface Adamax {
    betas?: [number, number];
    eps?: number;
    lr?: number;
    weightDecay?: number;
}

export type AdapterExample =
| string
| readonly Message[]
| { readonly tokens: ArrayLike<number>; readonly prompt?: number };

export interface AdapterFiles {
    readonly config: string;
    readonly weights: Uint8Array;
}

export interface AdapterOptions {
    alpha?: number;
    rank?: number;
    rankStabilized?: boolean;
    seed?: number;
    targets?: readonly Projection[];
}

export type Anneal = "cos" | "linear";

export interface Asgd {
    alpha?: number;
    lambd?: number;
    lr?: number;
    t0?: number;
    weightDecay?: number;
}

export interface AttentionOptions {
    attnMask?: Tensor;
    isCausal?: boolean;
    kvLength?: number;
    scale?: number;
    window?: number;
}

export type Average = "macro" | "micro";

export type Axes = number | readonly number[];

export class Batch {
    [Symbol.dispose](): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    plan(): Plan;
    run(): void;
}

export interface Batch {
    add(tensor: Tensor): this;
}

type Batch = readonly [x: Tensor, y: Tensor];

type Batches = Iterable<Batch> | AsyncIterable<Batch>;

export interface BinaryCrossEntropyOptions {
    reduction?: LossReduction;
    weight?: Tensor;
}

export interface BinaryCrossEntropyWithLogitsOptions {
    posWeight?: Tensor;
    reduction?: LossReduction;
    weight?: Tensor;
}

export interface BufferSpec<T extends string = string> {
    dtype?: T;
    shape: readonly number[];
}

export type Bytes = ReturnType<Uint8Array["slice"]>;

export interface CacheLimits {
    bindGroups?: number;
    pipelines?: number;
    planBytes?: number;
    plans?: number;
    pooledBytes?: number;
}

export interface ConvOptions {
    dilation?: PerAxis;
    groups?: number;
    padding?: Padding;
    stride?: PerAxis;
}

export interface ConvTransposeOptions {
    dilation?: PerAxis;
    groups?: number;
    outputPadding?: PerAxis;
    padding?: Padding;
    stride?: PerAxis;
}

export interface CrossEntropyOptions {
    ignoreIndex?: number;
    labelSmoothing?: number;
    reduction?: LossReduction;
    weight?: Tensor;
}

export type DType = "f32" | "f16" | "i32" | "u32" | "bool" | "i8" | "u8" | "i16" | "u16";

export interface DataOf {
    bool: Uint8Array;
    f16: Float32Array;
    f32: Float32Array;
    i16: Int16Array;
    i32: Int32Array;
    i8: Int8Array;
    u16: Uint16Array;
    u32: Uint32Array;
    u8: Uint8Array;
}

export interface DequantizeOptions {
    zeroPoint?: Tensor;
}

export class Device {
    [Symbol.dispose](): void;
    batch(): Batch;
    bernoulli<T extends DType = "f32">(shape: Shape | number, p: number, options?: { dtype?: T; seed?: number }): Tensor<T>;
    cacheLimits(): Required<CacheLimits>;
    checkIndices(whether: boolean): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    eye<T extends DType = "f32">(size: Shape | number, options?: { dtype?: T }): Tensor<T>;
    iota(shape: readonly number[], axis: number): Tensor<"i32">;
    lastPlan(): Plan | undefined;
    linspace<T extends DType = "f32">(start: number, stop: number, count: Shape | number, options?: { dtype?: T }): Tensor<T>;
    measureCeilings(): Promise<{ bytesPerSecond: number; flopsPerSecond: number }>;
    memory(): MemoryReport;
    memoryLimit(): number | undefined;
    normal<T extends DType = "f32">(shape: Shape | number, options?: { dtype?: T; mean?: number; std?: number; seed?: number }): Tensor<T>;
    onCompile(listener?: (progress: { done: number; total: number }) => void): void;
    ones<T extends DType = "f32">(shape: Shape | number, options?: { dtype?: T }): Tensor<T>;
    randomBits(shape: readonly number[], options?: { seed?: number }): Tensor<"u32">;
    setCacheLimits(options?: CacheLimits): void;
    setMemoryLimit(bytes?: number): void;
    stats(): Stats;
    submit(): void;
    synchronize(): Promise<void>;
    trim(): void;
    uniform<T extends DType = "f32">(shape: Shape | number, options?: { dtype?: T; low?: number; high?: number; seed?: number }): Tensor<T>;
    zeros<T extends DType = "f32">(shape: Shape | number, options?: { dtype?: T }): Tensor<T>;
}

export declare namespace Device {
    function create(options?: DeviceOptions): Promise<Device>;
    export function from(device: GpuDevice, options?: ShareOptions): Promise<Device>;
    export function discover(): Promise<Found[]>;
    export function isAvailable(): Promise<boolean>;
    export { create as new };
}

export interface Device {
    arange<T extends DType = "f32">(end: number, options?: { dtype?: T }): Tensor<T>;
    arange<T extends DType = "f32">(start: number, end: number, step?: number, options?: { dtype?: T }): Tensor<T>;
    compile(inputs: readonly InputSpec[], build: (...inputs: Tensor[]) => Tensor | readonly Tensor[]): Program;
    elementFunction(source: string, options?: ElementFunctionOptions): Promise<ElementFunction>;
    readonly fallback: string | undefined;
    full(shape: Shape | number, value: boolean): Tensor<"bool">;
    full<T extends DType = "f32">(shape: Shape | number, value: number | boolean, options?: { dtype?: T }): Tensor<T>;
    readonly info: DeviceInfo;
    readonly limits: DeviceLimits;
    loadNpy(source: FileSource): Promise<Tensor>;
    loadNpz(source: FileSource): Promise<Record<string, Tensor>>;
    loadSafetensors(source: FileSource, options?: FileOptions): Promise<Safetensors>;
    profile<T>(work: () => T | Promise<T>): Promise<{ value: T; profile: Profile }>;
    read<const T extends readonly Tensor[]>(
    tensors: T,
    ): Promise<{ -readonly [I in keyof T]: T[I] extends Tensor<infer D extends DType> ? DataOf[D] : never }>;
    saveNpz(tensors: Record<string, Tensor>, options?: { compressed?: boolean }): Promise<Bytes>;
    saveSafetensors(tensors: Record<string, Tensor>, metadata?: Record<string, string>): Promise<Bytes>;
    scope<T>(work: () => T): T;
    shader(source: string, options?: ShaderOptions): Promise<Shader>;
    tensor<S extends TensorSource>(data: S, shape?: Shape): Tensor<TypeOf<S>>;
    tensor<T extends DType>(data: TensorSource, shape: Shape | undefined, dtype: T): Tensor<T>;
    tensorFromBuffer<T extends DType = "f32">(buffer: GpuBuffer, spec: BufferSpec<T>): Tensor<T>;
    toString(): string;
    tune(options?: TuneOptions): Promise<Tuned>;
}

export interface DeviceInfo {
    readonly backend: string;
    readonly driver: string;
    readonly kind: "discrete" | "integrated" | "gpu" | "cpu" | "software";
    readonly name: string;
    readonly vendor: string;
}

export interface DeviceLimits {
    readonly bindingBytes: number;
    readonly buffersPerKernel: number;
    readonly cooperative: boolean;
    readonly f16: boolean;
    readonly packed: boolean;
    readonly sorts: boolean;
    readonly subgroups: boolean;
    readonly timestamps: boolean;
    readonly workgroupBytes: number;
    readonly workgroupSize: number;
    readonly workgroups: number;
}

export interface DeviceOptions {
    prefer?: "auto" | "gpu" | "low-power" | "cpu" | "software" | (string & {}) | number;
    wasm?: WasmSources;
}

export interface EarlyStopping {
    minDelta?: number;
    mode?: PlateauMode;
    monitor?: string;
    patience?: number;
    restoreBest?: boolean;
}

export class ElementFunction {
    [Symbol.dispose](): void;
    call(...operands: (Tensor | number | boolean)[]): Tensor;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    readonly name: string;
}

export interface ElementFunctionOptions {
    fallback?: (...operands: Tensor[]) => Tensor;
    gradients?: readonly ElementFunction[];
}

export interface EmbedOptions {
    prompt?: string;
    promptName?: string;
}

export class Embedder {
    [Symbol.dispose](): void;
    private constructor();
    readonly device: Device;
    readonly dimensions: number;
    dispose(): void;
    readonly disposed: boolean;
    embed(texts: string | readonly string[], options?: EmbedOptions): Tensor;
    readonly maxTokens: number;
    ready(): Promise<void>;
}

export namespace Embedder {
    function load(source: EmbedderSource, options?: EmbedderOptions): Promise<Embedder>;
}

export interface EmbedderOptions {
    device?: Device;
    onProgress?: (progress: ModelProgress) => void;
    signal?: PlatformSignal;
}

export type EmbedderSource =
| PlatformUrl
| string
| PlatformFolder
| ArrayLike<PlatformBlob>
| Readonly<Record<string, ModelSource>>;

export interface Epoch {
    readonly epoch: number;
    readonly loss: number;
    readonly lr: number;
    readonly seconds: number;
    readonly steps: number;
    readonly validation: Scores | undefined;
}

export type ErrorCode = "Shape" | "DType" | "InvalidArgument" | "InvalidState" | "Format" | "Unsupported" | "Memory" | "DeviceLost" | "NoDevice" | "Limit";

export type FftNorm = "backward" | "ortho" | "forward";

export interface FftOptions {
    axis?: number;
    n?: number;
    norm?: FftNorm;
}

export interface FileOptions {
    onProgress?: (bytes: {
        done: number;
        total: number | undefined;
    }) => void;
}

export type FileSource = PlatformBlob | PlatformResponse | ArrayBuffer | ArrayBufferView;

export type Filter = "floor" | "ceil" | "half-down" | "half-up" | "linear" | "cubic";

export type Finish = "end" | "stop" | "maxTokens" | "contextFull";

export interface FitOptions {
    signal?: PlatformSignal;
}

export type Forward = (x: Tensor, y: Tensor) => Tensor | readonly [loss: Tensor, prediction: Tensor];

export interface Found {
    readonly available: boolean;
    readonly bindingBytes?: number;
    readonly f16?: boolean;
    readonly info: DeviceInfo;
    readonly reason?: string;
    readonly recommended: boolean;
    readonly subgroups?: boolean;
    readonly timestamps?: boolean;
}

export interface GaussianNllOptions {
    eps?: number;
    full?: boolean;
    reduction?: LossReduction;
}

export interface GenerateOptions {
    frequencyPenalty?: number;
    ignoreEnd?: boolean;
    likeliest?: number;
    logitBias?: readonly (readonly [token: number, more: number])[];
    maxTokens?: number;
    minP?: number;
    presencePenalty?: number;
    repetitionPenalty?: number;
    seed?: number;
    signal?: PlatformSignal;
    stop?: string | readonly string[];
    temperature?: number;
    topK?: number;
    topP?: number;
}

export interface GeneratedToken {
    readonly id: number;
    readonly likeliest: readonly (readonly [token: number, logprob: number])[];
    readonly logprob: number;
    readonly text: string;
}

export class Generation {
    [Symbol.dispose](): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    readonly finish: Finish | undefined;
    nextToken(): Promise<GeneratedToken | undefined>;
}

export interface Generation extends AsyncIterable<string> {
    text(): Promise<string>;
    tokens(): AsyncGenerator<GeneratedToken, void, undefined>;
}

export class Generator {
    [Symbol.dispose](): void;
    constructor(device: Device, seed: number);
    dispose(): void;
    readonly disposed: boolean;
    drawn: number;
}

export type GpuBuffer = Instance<"GPUBuffer">;

export type GpuDevice = Instance<"GPUDevice">;

export interface GridSampleOptions {
    alignCorners?: boolean;
    mode?: SampleMode;
    paddingMode?: SamplePadding;
}

export interface HeldTensor {
    readonly bytes: number;
    readonly dtype: DType;
    readonly holder: string;
    readonly madeAt: string | undefined;
    readonly op: string;
    readonly shape: readonly number[];
}

export interface InputSpec {
    dtype?: DType;
    shape: readonly (number | string)[];
}

type Instance<Name extends string> = typeof globalThis extends {
    [name in Name]: {
        prototype: infer T;
    };
} ? T : object;

export interface KeptModel {
    readonly bytes: number;
    readonly name: string;
    readonly total: number;
    readonly url: string;
}

export interface KernelProfile {
    readonly bytesPerSecond?: number;
    readonly bytesRead: number;
    readonly bytesWritten: number;
    readonly copyShare?: number;
    readonly exactBytes: boolean;
    readonly flops: number;
    readonly flopsPerSecond?: number;
    readonly kind: string;
    readonly label: string;
    readonly mean: number;
    readonly productShare?: number;
    readonly runs: number;
    readonly time: number;
    readonly timed: number;
}

export interface Lamb {
    betas?: [number, number];
    eps?: number;
    lr?: number;
    weightDecay?: number;
}

export class LanguageModel {
    [Symbol.dispose](): void;
    private constructor();
    readonly contextLength: number;
    readonly contextUsed: number;
    createAdapter(options?: AdapterOptions): LoraAdapter;
    decode(tokens: ArrayLike<number>): string;
    readonly device: Device;
    dispose(): void;
    readonly disposed: boolean;
    encode(text: string, special?: boolean): Uint32Array;
    loadAdapter(config: string, weights: Uint8Array | ArrayBuffer): LoraAdapter;
    ready(): Promise<void>;
    withAdapter(adapter: LoraAdapter): LanguageModel;
}

export interface LanguageModel {
    chat(messages: readonly Message[], options?: GenerateOptions): Generation;
    generate(prompt: string | ArrayLike<number>, options?: GenerateOptions): Generation;
}

export namespace LanguageModel {
    function load(source: ModelSource | readonly ModelSource[] | ModelFolder, options?: ModelOptions): Promise<LanguageModel>;
    function estimate(source: ModelSource | readonly ModelSource[] | ModelFolder, options?: ModelOptions): Promise<ModelEstimate>;
}

export class Layer {
    [Symbol.dispose](): void;
    static batchNorm(generator: Generator, channels: number, options?: { eps?: number; momentum?: number }): Layer;
    static bilinear(generator: Generator, inputs1: number, inputs2: number, outputs: number, options?: { bias?: boolean }): Layer;
    private constructor();
    static conv1d(generator: Generator, inputs: number, outputs: number, kernelSize: PerAxis, options?: ConvOptions & { bias?: boolean }): Layer;
    static conv2d(generator: Generator, inputs: number, outputs: number, kernelSize: PerAxis, options?: ConvOptions & { bias?: boolean }): Layer;
    static conv3d(generator: Generator, inputs: number, outputs: number, kernelSize: PerAxis, options?: ConvOptions & { bias?: boolean }): Layer;
    static convTranspose1d(generator: Generator, inputs: number, outputs: number, kernelSize: PerAxis, options?: ConvTransposeOptions & { bias?: boolean }): Layer;
    static convTranspose2d(generator: Generator, inputs: number, outputs: number, kernelSize: PerAxis, options?: ConvTransposeOptions & { bias?: boolean }): Layer;
    static convTranspose3d(generator: Generator, inputs: number, outputs: number, kernelSize: PerAxis, options?: ConvTransposeOptions & { bias?: boolean }): Layer;
    dispose(): void;
    readonly disposed: boolean;
    static dropout(generator: Generator, p?: number): Layer;
    static embedding(generator: Generator, count: number, width: number): Layer;
    forward(x: Tensor | readonly Tensor[], options?: AttentionOptions): Tensor;
    static groupNorm(generator: Generator, groups: number, channels: number, options?: { eps?: number }): Layer;
    static gru(generator: Generator, inputs: number, hidden: number, options?: RecurrentOptions): Layer;
    static instanceNorm(generator: Generator, channels: number, options?: { eps?: number; affine?: boolean }): Layer;
    static layerNorm(generator: Generator, shape: readonly number[], options?: { eps?: number }): Layer;
    static linear(generator: Generator, inputs: number, outputs: number, options?: { bias?: boolean }): Layer;
    static lora(generator: Generator, inputs: number, outputs: number, rank: number, alpha: number): Layer;
    static lstm(generator: Generator, inputs: number, hidden: number, options?: RecurrentOptions): Layer;
    static multiheadAttention(generator: Generator, width: number, heads: number, options?: { dropout?: number; addBiasKv?: boolean; addZeroAttn?: boolean }): Layer;
    parameter(name: string): Variable;
    static rmsNorm(generator: Generator, shape: readonly number[], options?: { eps?: number }): Layer;
    static rnn(generator: Generator, inputs: number, hidden: number, options?: RecurrentOptions): Layer;
    run(x: Tensor | readonly Tensor[]): Tensor[];
    static transformerDecoderLayer(generator: Generator, width: number, heads: number, options?: TransformerOptions): Layer;
    static transformerEncoderLayer(generator: Generator, width: number, heads: number, options?: TransformerOptions): Layer;
}

export interface Layer extends Module {
}

export interface LinearLrOptions {
    endFactor?: number;
    startFactor?: number;
    totalIters?: number;
}

export interface Lion {
    betas?: [number, number];
    lr?: number;
    weightDecay?: number;
}

export class LoraAdapter {
    [Symbol.dispose](): void;
    private constructor();
    readonly device: Device;
    dispose(): void;
    readonly disposed: boolean;
    parameters(): Variable[];
    readonly rank: number;
    save(): Promise<AdapterFiles>;
    readonly scale: number;
}

export interface LoraAdapter {
    loss(examples: readonly AdapterExample[]): Tensor;
}

export type LossReduction = "none" | "mean" | "sum" | "batchmean";

export interface LossScale {
    backoffFactor?: number;
    growthFactor?: number;
    growthInterval?: number;
    initScale?: number;
}

export type MatrixNorm = "frobenius" | "nuclear" | "one" | "neg-one" | "two" | "neg-two" | "inf" | "neg-inf";

export interface MemoryReport {
    readonly allocated: number;
    readonly constants: number;
    readonly largest: readonly HeldTensor[];
    readonly peak: number;
    readonly peakBy: string;
    readonly peakComputed: number;
    readonly peakTemporaries: number;
    readonly peakUploaded: number;
    readonly pending: number;
    readonly pooled: number;
    readonly staging: number;
    readonly temporaries: number;
    readonly tensors: number;
    readonly variables: number;
}

export interface Message {
    [name: string]: unknown;
    content: string;
    role: string;
}

export type Metric =
| "accuracy"
| "meanAbsoluteError"
| "meanSquaredError"
| "r2Score"
| { metric: "topKAccuracy"; k: number }
| { metric: "precision" | "recall" | "f1"; classes: number; average?: Average }
| { metric: "confusionMatrix"; classes: number };

export interface ModelEstimate {
    readonly cache: number;
    readonly temporaries: number;
    readonly total: number;
    readonly weights: number;
}

export type ModelFolder =
| PlatformUrl
| string
| PlatformFolder
| ArrayLike<PlatformBlob>
| Readonly<Record<string, ModelSource>>;

export interface ModelOptions {
    cache?: "f16" | "f32";
    context?: number;
    device?: Device;
    keep?: boolean;
    onProgress?: (progress: ModelProgress) => void;
    sha256?: string | readonly string[];
    signal?: PlatformSignal;
}

export interface ModelProgress {
    readonly done: number;
    readonly seconds: number | undefined;
    readonly total: number;
}

export type ModelSource = PlatformBlob | PlatformResponse | PlatformUrl | string | ArrayBuffer | ArrayBufferView;

export abstract class Module {
    eval(): this;
    load(file: FileSource, options?: FileOptions): Promise<Record<string, string>>;
    loadFrom(name: string): Promise<Record<string, string> | undefined>;
    loadStateDict(state: Record<string, Tensor>): void;
    namedParameters(): [string, Variable][];
    readonly parameterCount: number;
    parameters(): Variable[];
    save(notes?: Record<string, string>): Promise<Bytes>;
    saveTo(name: string, notes?: Record<string, string>): Promise<void>;
    stateDict(): Record<string, Tensor>;
    summary(): string;
    train(): this;
    readonly training: boolean;
}

export interface Muon {
    eps?: number;
    lr?: number;
    momentum?: number;
    nesterov?: boolean;
    nsSteps?: number;
    weightDecay?: number;
}

export interface NAdam {
    betas?: [number, number];
    decoupledWeightDecay?: boolean;
    eps?: number;
    lr?: number;
    momentumDecay?: number;
    weightDecay?: number;
}

export type NestedArray = readonly (number | boolean | bigint | NestedArray)[];

export interface NllOptions {
    ignoreIndex?: number;
    reduction?: LossReduction;
    weight?: Tensor;
}

export type Nonlinearity = "tanh" | "relu";

export interface NormOptions {
    bias?: Tensor;
    eps?: number;
    weight?: Tensor;
}

export interface OneCycleOptions {
    annealStrategy?: Anneal;
    divFactor?: number;
    finalDivFactor?: number;
    pctStart?: number;
    threePhase?: boolean;
}

export type Operand = Tensor | number | boolean;

export class Optimizer {
    [Symbol.dispose](): void;
    accumulate(loss: Tensor): void;
    static adaBelief(parameters: Module | readonly Variable[], options?: AdaBelief): Optimizer;
    static adadelta(parameters: Module | readonly Variable[], options?: Adadelta): Optimizer;
    static adagrad(parameters: Module | readonly Variable[], options?: Adagrad): Optimizer;
    static adam(parameters: Module | readonly Variable[], options?: Adam): Optimizer;
    static adamW(parameters: Module | readonly Variable[], options?: AdamW): Optimizer;
    static adamax(parameters: Module | readonly Variable[], options?: Adamax): Optimizer;
    addGroup(other: Optimizer): void;
    static asgd(parameters: Module | readonly Variable[], options?: Asgd): Optimizer;
    average(decay: number): WeightAverage;
    clipNorm(max: number): void;
    clipValue(max: number): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    static lamb(parameters: Module | readonly Variable[], options?: Lamb): Optimizer;
    static lion(parameters: Module | readonly Variable[], options?: Lion): Optimizer;
    lossScale(): Tensor | undefined;
    lr: number;
    minimize(loss: Tensor): void;
    mixedPrecision(options?: LossScale): void;
    static muon(parameters: Module | readonly Variable[], options?: Muon): Optimizer;
    static nAdam(parameters: Module | readonly Variable[], options?: NAdam): Optimizer;
    static rAdam(parameters: Module | readonly Variable[], options?: RAdam): Optimizer;
    static rmsProp(parameters: Module | readonly Variable[], options?: RmsProp): Optimizer;
    static rprop(parameters: Module | readonly Variable[], options?: Rprop): Optimizer;
    scaleLoss(loss: Tensor): Tensor;
    setGroupLr(group: number, lr: number): void;
    static sgd(parameters: Module | readonly Variable[], options?: Sgd): Optimizer;
    step(): void;
    readonly steps: number;
    static yogi(parameters: Module | readonly Variable[], options?: Yogi): Optimizer;
}

export interface Optimizer {
    loadStateDict(state: Record<string, Tensor>): Promise<void>;
    stateDict(): Record<string, Tensor>;
}

export interface Ordered<D extends DType = DType> {
    indices: Tensor<"i32">;
    values: Tensor<D>;
}

export type PadMode = "reflect" | "symmetric" | "edge" | "wrap";

export type Padding = PerAxis | readonly (readonly [before: number, after: number])[] | "same" | "valid";

export type PerAxis = number | readonly number[];

export class Plan {
    [Symbol.dispose](): void;
    readonly buffers: number;
    readonly bytes: number;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    readonly kernels: number;
    readonly labels: string[];
    readonly operations: number;
    sources(): (string | undefined)[];
    readonly text: string;
}

export type PlateauMode = "min" | "max";

export interface PlateauOptions {
    cooldown?: number;
    eps?: number;
    factor?: number;
    minLr?: number;
    mode?: PlateauMode;
    patience?: number;
    threshold?: number;
    thresholdMode?: ThresholdMode;
}

type PlatformBlob = Instance<"Blob">;

type PlatformFolder = Instance<"FileSystemDirectoryHandle">;

type PlatformResponse = Instance<"Response">;

type PlatformSignal = Instance<"AbortSignal">;

type PlatformUrl = Instance<"URL">;

export interface PoissonNllOptions {
    eps?: number;
    full?: boolean;
    logInput?: boolean;
    reduction?: LossReduction;
}

export interface PoolOptions {
    ceilMode?: boolean;
    countIncludePad?: boolean;
    dilation?: PerAxis;
    kernelSize: PerAxis;
    padding?: Padding;
    stride?: PerAxis;
}

export class Profile {
    [Symbol.dispose](): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    readonly text: string;
    toChromeTrace(): string;
}

export interface Profile {
    toJSON(): ProfileData;
    toString(): string;
}

export interface ProfileData {
    readonly ceilings?: { readonly bytesPerSecond: number; readonly flopsPerSecond: number };
    readonly clock: "timestamps" | "host" | "submissions" | "none";
    readonly device: DeviceInfo;
    readonly deviceTime: number;
    readonly host: Readonly<Record<"recording" | "planning" | "compiling" | "uploading" | "submitting" | "waiting", number>>;
    readonly kernels: readonly KernelProfile[];
    readonly operations: number;
    readonly resolution: number;
    readonly submissions: number;
    readonly total: number;
    readonly untimed: number;
}

export class Program {
    [Symbol.dispose](): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    readonly plan: Plan;
    ready(): Promise<void>;
    run(...inputs: Tensor[]): Tensor[];
}

export type Projection = "q_proj" | "k_proj" | "v_proj" | "o_proj" | "gate_proj" | "up_proj" | "down_proj";

export interface QuotientOf {
    bool: "f32";
    f16: "f16";
    f32: "f32";
    i16: "f32";
    i32: "f32";
    i8: "f32";
    u16: "f32";
    u32: "f32";
    u8: "f32";
}

export interface RAdam {
    betas?: [number, number];
    decoupledWeightDecay?: boolean;
    eps?: number;
    lr?: number;
    weightDecay?: number;
}

export interface RecurrentOptions {
    bias?: boolean;
    bidirectional?: boolean;
    dropout?: number;
    nonlinearity?: Nonlinearity;
    numLayers?: number;
    projSize?: number;
}

export type Reduction = "sum" | "prod" | "max" | "min" | "any" | "all";

export interface ResampleOptions {
    antialias?: boolean;
    filter?: Filter;
    first?: number;
    inside?: boolean;
    sharpness?: number;
    step?: number;
}

export class Residual extends Module {
    constructor(layer: Step);
    forward(x: Tensor): Tensor;
    readonly layer: Step;
}

export type Resize = "nearest" | "nearest-exact" | "linear" | "linear-corners" | "cubic" | "cubic-corners" | "linear-antialias" | "cubic-antialias";

export interface RmsNormOptions {
    eps?: number;
    weight?: Tensor;
}

export interface RmsProp {
    alpha?: number;
    centered?: boolean;
    eps?: number;
    lr?: number;
    momentum?: number;
    weightDecay?: number;
}

export interface Rprop {
    etas?: [number, number];
    lr?: number;
    stepSizes?: [number, number];
}

export interface Safetensors {
    metadata: Record<string, string>;
    skipped: Record<string, Skipped>;
    tensors: Record<string, Tensor>;
}

export type SampleMode = "bilinear" | "nearest" | "bicubic";

export type SamplePadding = "zeros" | "border" | "reflection";

export interface ScatterNdOptions {
    reduction?: Reduction;
}

export class Schedule {
    [Symbol.dispose](): void;
    static constant(lr: number, options?: { factor?: number; totalIters?: number }): Schedule;
    private constructor();
    static cosineAnnealing(lr: number, tMax: number, etaMin?: number): Schedule;
    static cosineAnnealingWarmRestarts(lr: number, t0: number, options?: WarmRestartsOptions): Schedule;
    dispose(): void;
    readonly disposed: boolean;
    static exponential(lr: number, gamma: number): Schedule;
    static linear(lr: number, options?: LinearLrOptions): Schedule;
    lr(step: number): number;
    static multiStep(lr: number, milestones: readonly number[], gamma?: number): Schedule;
    static oneCycle(maxLr: number, totalSteps: number, options?: OneCycleOptions): Schedule;
    static polynomial(lr: number, totalIters: number, power?: number): Schedule;
    static reduceOnPlateau(lr: number, options?: PlateauOptions): Schedule;
    step(metric: number): number;
    static stepLr(lr: number, stepSize: number, gamma?: number): Schedule;
}

export interface Scores {
    readonly loss: number;
    readonly metrics: Readonly<Record<string, number>>;
}

export class Sequential extends Module {
    [index: number]: Step;
    constructor(...steps: Step[]);
    forward(x: Tensor): Tensor;
}

export interface Sgd {
    dampening?: number;
    lr?: number;
    momentum?: number;
    nesterov?: boolean;
    weightDecay?: number;
}

export class Shader {
    [Symbol.dispose](): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
}

export interface Shader {
    run(run: ShaderRun): Tensors;
}

export interface ShaderOptions {
    fallback?: (inputs: Tensors, params: Record<string, number>) => Tensors;
    gradient?: (inputs: Tensors, outputs: Tensors, gradients: Tensors) => Tensors;
}

export interface ShaderRun {
    inputs: Tensors;
    outputs: Record<string, Shape>;
    params?: Record<string, number>;
    workgroups: readonly number[];
}

export type Shape = readonly number[];

export interface ShareOptions {
    wasm?: WasmSources;
}

export declare class SharedBuffer {
    #private;
    [Symbol.dispose]: () => void;
    readonly buffer: GpuBuffer;
    readonly byteLength: number;
    dispose(): void;
}

export interface Skipped {
    dtype: string;
    end: number;
    shape: number[];
    start: number;
}

export interface Stats {
    readonly bindGroups: number;
    readonly bindGroupsEvicted: number;
    readonly bindGroupsHeld: number;
    readonly buffers: number;
    readonly buffersEvicted: number;
    readonly bytes: number;
    readonly kernels: number;
    readonly nodes: number;
    readonly peakBytes: number;
    readonly pipelines: number;
    readonly pipelinesEvicted: number;
    readonly pipelinesHeld: number;
    readonly planBytes: number;
    readonly plans: number;
    readonly plansEvicted: number;
    readonly plansHeld: number;
    readonly pooledBytes: number;
    readonly submits: number;
    readonly usedBytes: number;
}

export type Step = { forward(x: Tensor): Tensor } | ((x: Tensor) => Tensor);

export interface SumOf {
    bool: "i32";
    f16: "f16";
    f32: "f32";
    i16: "i32";
    i32: "i32";
    i8: "i32";
    u16: "i32";
    u32: "u32";
    u8: "i32";
}

export class Tensor<D extends DType = DType> {
    [Symbol.dispose](): void;
    abs(): Tensor<D>;
    acos(): Tensor<D>;
    acosh(): Tensor<D>;
    adaptiveAvgPool(sizes: readonly number[]): Tensor<D>;
    adaptiveMaxPool(sizes: readonly number[]): Tensor<D>;
    adaptiveMaxPoolIndices(sizes: readonly number[]): Tensor<"i32">;
    add(y: Operand): Tensor<D>;
    all(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    allClose(other: Operand, options?: { rtol?: number; atol?: number }): Tensor<"bool">;
    any(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    argmax(axes?: Axes, options?: { keepdim?: boolean }): Tensor<"i32">;
    argmin(axes?: Axes, options?: { keepdim?: boolean }): Tensor<"i32">;
    argsort(axis?: number, options?: { descending?: boolean }): Tensor<"i32">;
    asin(): Tensor<D>;
    asinh(): Tensor<D>;
    atan(): Tensor<D>;
    atan2(x: Operand): Tensor<D>;
    atanh(): Tensor<D>;
    attention(k: Tensor, v: Tensor, options?: AttentionOptions): Tensor<D>;
    avgPool(options: PoolOptions): Tensor<D>;
    backward(variables: readonly Variable[]): void;
    batchNorm(mean: Tensor, variance: Tensor, options?: NormOptions): Tensor<D>;
    binaryCrossEntropy(target: Tensor, options?: BinaryCrossEntropyOptions): Tensor<D>;
    binaryCrossEntropyWithLogits(target: Tensor, options?: BinaryCrossEntropyWithLogitsOptions): Tensor<D>;
    bincount(length: number): Tensor<"i32">;
    bitcast<T extends DType = "f32">(dtype: T): Tensor<T>;
    bitwiseAnd(y: Operand): Tensor<D>;
    bitwiseLeftShift(count: Operand): Tensor<D>;
    bitwiseNot(): Tensor<D>;
    bitwiseOr(y: Operand): Tensor<D>;
    bitwiseRightShift(count: Operand): Tensor<D>;
    bitwiseXor(y: Operand): Tensor<D>;
    bucketize(boundaries: Tensor, options?: { right?: boolean }): Tensor<"i32">;
    cast<T extends DType = "f32">(dtype: T): Tensor<T>;
    cdist(other: Tensor, p?: number): Tensor<D>;
    ceil(): Tensor<D>;
    celu(alpha?: number): Tensor<D>;
    cholesky(): Tensor<D>;
    chunk(count: number, axis: number): Tensor[];
    clamp(min?: Operand | undefined, max?: Operand | undefined): Tensor<D>;
    clampMax(max: Operand): Tensor<D>;
    clampMin(min: Operand): Tensor<D>;
    complexMul(other: Tensor): Tensor<D>;
    static concat<T extends DType = "f32">(tensors: readonly Tensor<T>[], axis?: number): Tensor<T>;
    private constructor();
    conv1d(weight: Tensor, options?: ConvOptions & { bias?: Tensor }): Tensor<D>;
    conv2d(weight: Tensor, options?: ConvOptions & { bias?: Tensor }): Tensor<D>;
    conv3d(weight: Tensor, options?: ConvOptions & { bias?: Tensor }): Tensor<D>;
    convTranspose1d(weight: Tensor, options?: ConvTransposeOptions & { bias?: Tensor }): Tensor<D>;
    convTranspose2d(weight: Tensor, options?: ConvTransposeOptions & { bias?: Tensor }): Tensor<D>;
    convTranspose3d(weight: Tensor, options?: ConvTransposeOptions & { bias?: Tensor }): Tensor<D>;
    copysign(y: Operand): Tensor<D>;
    cos(): Tensor<D>;
    cosh(): Tensor<D>;
    cosineEmbeddingLoss(other: Tensor, target: Tensor, options?: { margin?: number; reduction?: LossReduction }): Tensor<D>;
    cosineSimilarity(other: Tensor, options?: { axis?: number; eps?: number }): Tensor<D>;
    cov(options?: { correction?: number }): Tensor<D>;
    cross(other: Tensor, axis?: number): Tensor<D>;
    crossEntropy(target: Tensor, options?: CrossEntropyOptions): Tensor<D>;
    cummax(axis: number, options?: { exclusive?: boolean; reverse?: boolean }): Tensor<D>;
    cummin(axis: number, options?: { exclusive?: boolean; reverse?: boolean }): Tensor<D>;
    cumprod(axis: number, options?: { exclusive?: boolean; reverse?: boolean }): Tensor<SumOf[D]>;
    cumsum(axis: number, options?: { exclusive?: boolean; reverse?: boolean }): Tensor<SumOf[D]>;
    dequantize(scale: Tensor, options?: DequantizeOptions): Tensor;
    det(): Tensor<D>;
    detach(): Tensor<D>;
    readonly device: Device;
    diag(diagonal?: number): Tensor<D>;
    diagonal(offset?: number, axis1?: number, axis2?: number): Tensor<D>;
    diff(n?: number, axis?: number): Tensor<D>;
    digamma(): Tensor<D>;
    dispose(): void;
    readonly disposed: boolean;
    div(y: Operand): Tensor<QuotientOf[D]>;
    dot(other: Tensor): Tensor<D>;
    dropout(p: number, seed?: number): Tensor<D>;
    readonly dtype: D;
    eigh(): { values: Tensor<D>; vectors: Tensor<D> };
    static einsum<T extends DType = "f32">(equation: string, operands: readonly Tensor<T>[]): Tensor<T>;
    elu(alpha?: number): Tensor<D>;
    eq(y: Operand): Tensor<"bool">;
    erf(): Tensor<D>;
    erfc(): Tensor<D>;
    erfinv(): Tensor<D>;
    exp(): Tensor<D>;
    exp2(): Tensor<D>;
    expand(shape: Shape): Tensor<D>;
    expm1(): Tensor<D>;
    fft(options?: FftOptions): Tensor<D>;
    fft2(options?: { norm?: FftNorm }): Tensor<D>;
    findNonFinite(): Promise<string | undefined>;
    flatten(startAxis?: number, endAxis?: number): Tensor<D>;
    flip(axes: Axes): Tensor<D>;
    floor(): Tensor<D>;
    floorDivide(y: Operand): Tensor<D>;
    fma(y: Operand, z: Operand): Tensor<D>;
    fmod(y: Operand): Tensor<D>;
    fract(): Tensor<D>;
    fullLike(value: number): Tensor<D>;
    gather(axis: number, index: Tensor): Tensor<D>;
    gatherNd(index: Tensor): Tensor<D>;
    gaussianNllLoss(target: Tensor, variance: Tensor, options?: GaussianNllOptions): Tensor<D>;
    ge(y: Operand): Tensor<"bool">;
    gelu(): Tensor<D>;
    geluTanh(): Tensor<D>;
    glu(axis?: number): Tensor<D>;
    grad(wrt: readonly Tensor[], seed?: Tensor): Tensor[];
    graph(names?: Readonly<Record<string, Tensor>>): Promise<{ dot: string; svg: string }>;
    gridSample(grid: Tensor, options?: GridSampleOptions): Tensor<D>;
    groupNorm(groups: number, options?: NormOptions): Tensor<D>;
    gt(y: Operand): Tensor<"bool">;
    hardSigmoid(): Tensor<D>;
    hardSwish(): Tensor<D>;
    hardTanh(min?: number, max?: number): Tensor<D>;
    hardshrink(lambda?: number): Tensor<D>;
    heaviside(values: Operand): Tensor<D>;
    hingeEmbeddingLoss(target: Tensor, options?: { margin?: number; reduction?: LossReduction }): Tensor<D>;
    histc(bins: number, min: number, max: number): Tensor<"i32">;
    huberLoss(target: Tensor, options?: { delta?: number; reduction?: LossReduction }): Tensor<D>;
    hypot(y: Operand): Tensor<D>;
    ifft(options?: FftOptions): Tensor<D>;
    ifft2(options?: { norm?: FftNorm }): Tensor<D>;
    im2col(kernelSize: PerAxis, options?: ConvOptions): Tensor<D>;
    indexAdd(axis: number, index: Tensor, source: Tensor): Tensor<D>;
    indexSelect(axis: number, index: Tensor): Tensor<D>;
    instanceNorm(options?: NormOptions): Tensor<D>;
    inv(): Tensor<D>;
    irfft(options?: FftOptions): Tensor<D>;
    isClose(other: Operand, options?: { rtol?: number; atol?: number }): Tensor<"bool">;
    isFinite(): Tensor<"bool">;
    isInf(): Tensor<"bool">;
    isNan(): Tensor<"bool">;
    item(): Promise<number>;
    klDiv(target: Tensor, options?: { logTarget?: boolean; reduction?: LossReduction }): Tensor<D>;
    kron(other: Tensor): Tensor<D>;
    kthvalue(k: number, axis?: number): Ordered<D>;
    l1Loss(target: Tensor, options?: { reduction?: LossReduction }): Tensor<D>;
    l2Pool(options: PoolOptions): Tensor<D>;
    layerNorm(options?: NormOptions & { axes?: Axes }): Tensor<D>;
    le(y: Operand): Tensor<"bool">;
    leakyRelu(alpha?: number): Tensor<D>;
    lerp(y: Operand, t: Operand): Tensor<D>;
    lgamma(): Tensor<D>;
    log(): Tensor<D>;
    log10(): Tensor<D>;
    log1p(): Tensor<D>;
    log2(): Tensor<D>;
    logSigmoid(): Tensor<D>;
    logSoftmax(axis?: number): Tensor<D>;
    logaddexp(other: Operand): Tensor<D>;
    logcumsumexp(axis?: number): Tensor<D>;
    logicalAnd(y: Operand): Tensor<D>;
    logicalNot(): Tensor<D>;
    logicalOr(y: Operand): Tensor<D>;
    logicalXor(y: Operand): Tensor<D>;
    logit(): Tensor<D>;
    logsumexp(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    lstsq(other: Tensor): Tensor<D>;
    lt(y: Operand): Tensor<"bool">;
    marginRankingLoss(other: Tensor, target: Tensor, options?: { margin?: number; reduction?: LossReduction }): Tensor<D>;
    maskedFill(mask: Tensor, value: Operand): Tensor<D>;
    maskedSelect(mask: Tensor): Promise<Tensor<D>>;
    matmul(other: Tensor): Tensor<D>;
    matrixNorm(order?: MatrixNorm): Tensor<D>;
    max(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    maxPool(options: PoolOptions): Tensor<D>;
    maxPoolIndices(options: PoolOptions): Tensor<"i32">;
    maximum(y: Operand): Tensor<D>;
    mean(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    median(axis?: number): Tensor<D>;
    static meshgrid<T extends DType = "f32">(tensors: readonly Tensor<T>[]): Tensor<T>[];
    min(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    minimum(y: Operand): Tensor<D>;
    mish(): Tensor<D>;
    movedim(source: Axes, destination: Axes): Tensor<D>;
    mseLoss(target: Tensor, options?: { reduction?: LossReduction }): Tensor<D>;
    mul(y: Operand): Tensor<D>;
    nanToNum(options?: { nan?: number; posinf?: number; neginf?: number }): Tensor<D>;
    narrow(axis: number, start: number, length: number): Tensor<D>;
    ne(y: Operand): Tensor<"bool">;
    neg(): Tensor<D>;
    nllLoss(target: Tensor, options?: NllOptions): Tensor<D>;
    norm(p?: number, axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    normL1(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    normL2(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    normLinf(axes?: Axes, options?: { keepdim?: boolean }): Tensor<D>;
    oneHot(classes: number): Tensor<"f32">;
    onesLike(): Tensor<D>;
    outer(other: Tensor): Tensor<D>;
    pad(amounts: readonly (readonly [before: number, after: number])[], value?: number): Tensor<D>;
    padWith(amounts: readonly (readonly [before: number, after: number])[], mode: PadMode): Tensor<D>;
    permute(order: Axes): Tensor<D>;
    pixelShuffle(factor: number): Tensor<D>;
    pixelUnshuffle(factor: number): Tensor<D>;
    poissonNllLoss(target: Tensor, options?: PoissonNllOptions): Tensor<D>;
    pow(y: Operand): Tensor<D>;
    prelu(weight: Tensor): Tensor<D>;
    prod(axes?: Axes, options?: { keepdim?: boolean }): Tensor<SumOf[D]>;
    qr(): { q: Tensor<D>; r: Tensor<D> };
    quantile(q: number, axis?: number): Tensor<D>;
    randomBits(key: Operand): Tensor<D>;
    readonly rank: number;
    ravel(): Tensor<D>;
    read(): Promise<DataOf[D]>;
    readRange(start: number, length: number): Promise<DataOf[D]>;
    reciprocal(): Tensor<D>;
    relu(): Tensor<D>;
    relu6(): Tensor<D>;
    remainder(y: Operand): Tensor<D>;
    repeatInterleave(repeats: number, axis?: number): Tensor<D>;
    resample(axis: number, size: number, options?: ResampleOptions): Tensor<D>;
    reshape(shape: Shape): Tensor<D>;
    resize(sizes: readonly number[], mode?: Resize): Tensor<D>;
    rfft(options?: FftOptions): Tensor<D>;
    rmsNorm(options?: RmsNormOptions & { axes?: Axes }): Tensor<D>;
    roll(shifts: number | readonly number[], axes?: Axes): Tensor<D>;
    rot90(k?: number, axes?: [number, number]): Tensor<D>;
    rotary(cos: Tensor, sin: Tensor, interleaved?: boolean): Tensor<D>;
    round(): Tensor<D>;
    rsqrt(): Tensor<D>;
    run(): void;
    saveNpy(): Promise<Bytes>;
    scatter(axis: number, index: Tensor, source: Tensor): Tensor<D>;
    scatterAdd(axis: number, index: Tensor, source: Tensor): Tensor<D>;
    scatterNd(index: Tensor, source: Tensor, options?: ScatterNdOptions): Tensor<D>;
    scatterReduce(axis: number, index: Tensor, source: Tensor, op: Reduction | "mean", options?: { includeSelf?: boolean }): Tensor<D>;
    searchsorted(values: Tensor, options?: { right?: boolean }): Tensor<"i32">;
    select(axis: number, index: number): Tensor<D>;
    selu(): Tensor<D>;
    sigmoid(): Tensor<D>;
    sign(): Tensor<D>;
    signBit(): Tensor<"bool">;
    silu(): Tensor<D>;
    sin(): Tensor<D>;
    sinh(): Tensor<D>;
    readonly size: number;
    slice(axis: number, start?: number, end?: number, step?: number): Tensor<D>;
    sliceScatter(axis: number, start: number, source: Tensor): Tensor<D>;
    slogdet(): { sign: Tensor<D>; logabsdet: Tensor<D> };
    smoothL1Loss(target: Tensor, options?: { beta?: number; reduction?: LossReduction }): Tensor<D>;
    softMarginLoss(target: Tensor, options?: { reduction?: LossReduction }): Tensor<D>;
    softmax(axis?: number): Tensor<D>;
    softplus(): Tensor<D>;
    softshrink(lambda?: number): Tensor<D>;
    softsign(): Tensor<D>;
    solve(other: Tensor): Tensor<D>;
    solveTriangular(other: Tensor, upper?: boolean): Tensor<D>;
    sort(axis?: number, options?: { descending?: boolean }): Ordered<D>;
    split(sections: number | readonly number[], axis?: number): Tensor[];
    sqrt(): Tensor<D>;
    square(): Tensor<D>;
    squaredDifference(y: Operand): Tensor<D>;
    squeeze(axes?: Axes): Tensor<D>;
    static stack<T extends DType = "f32">(tensors: readonly Tensor<T>[], axis?: number): Tensor<T>;
    std(axes?: Axes, options?: { keepdim?: boolean; correction?: number }): Tensor<D>;
    sub(y: Operand): Tensor<D>;
    sum(axes?: Axes, options?: { keepdim?: boolean }): Tensor<SumOf[D]>;
    take(index: Tensor): Tensor<D>;
    tan(): Tensor<D>;
    tanh(): Tensor<D>;
    tensordot(other: Tensor, axes: Axes, otherAxes: Axes): Tensor<D>;
    threshold(threshold?: number, value?: number): Tensor<D>;
    tile(repeats: readonly number[]): Tensor<D>;
    topk(k: number, options?: { axis?: number; largest?: boolean }): Ordered<D>;
    trace(): Tensor<SumOf[D]>;
    transpose(a?: number, b?: number): Tensor<D>;
    trapezoid(dx?: number, axis?: number): Tensor<D>;
    tril(diagonal?: number): Tensor<D>;
    tripletMarginLoss(positive: Tensor, negative: Tensor, options?: TripletMarginOptions): Tensor<D>;
    triu(diagonal?: number): Tensor<D>;
    trunc(): Tensor<D>;
    unbind(axis?: number): Tensor[];
    unfold(axis: number, size: number, step?: number, dilation?: number): Tensor<D>;
    unitFloat(): Tensor<"f32">;
    unpack(bits: number, signed?: boolean): Tensor<"i32">;
    unpackBf16(): Tensor<"f32">;
    unsqueeze(axis: number): Tensor<D>;
    var(axes?: Axes, options?: { keepdim?: boolean; correction?: number }): Tensor<D>;
    static vjp(results: readonly Tensor[], seeds: readonly Tensor[], wrt: readonly Tensor[]): Tensor[];
    where(x: Operand, y: Operand): Tensor;
    zerosLike(): Tensor<D>;
}

export interface Tensor<D extends DType = DType> {
    checkpoint(work: (x: Tensor) => Tensor): Tensor;
    gpuBuffer(): SharedBuffer;
    print(options?: { precision?: number; threshold?: number }): Promise<void>;
    readNested(): Promise<number | NestedArray>;
    readonly shape: Shape;
    text(options?: { precision?: number; threshold?: number }): Promise<string>;
    to(device: Device): Promise<Tensor<D>>;
    toString(): string;
}

export type TensorData = DataOf[DType];

export type TensorSource = number | boolean | bigint | NestedArray | TypedArray | ArrayBuffer;

export type Tensors = Record<string, Tensor>;

export interface TextOptions {
    precision?: number;
    threshold?: number;
}

export type ThresholdMode = "rel" | "abs";

export class Trainer {
    [Symbol.dispose](): void;
    confusionMatrix(): Tensor<"i32">;
    constructor(model: Module, optimizer: Optimizer, data: TrainingData, forward: Forward, options?: TrainerOptions);
    dispose(): void;
    readonly disposed: boolean;
    epochs: number;
    readonly history: readonly Epoch[];
    readonly isOver: boolean;
    readonly steps: number;
}

export declare namespace Trainer {
    export function split(data: readonly [Tensor, Tensor], fraction: number, seed: number): [[Tensor, Tensor], [Tensor, Tensor]];
}

export interface Trainer extends AsyncIterable<TrainingStep> {
    endEpoch(): Promise<Epoch>;
    evaluate(data: TrainingData): Promise<Scores>;
    fit(onStep?: (step: TrainingStep) => unknown, options?: FitOptions): Promise<readonly Epoch[]>;
    load(file: FileSource, options?: FileOptions): Promise<Record<string, string>>;
    loadFrom(name: string): Promise<Record<string, string> | undefined>;
    nextStep(): Promise<TrainingStep | undefined>;
    save(notes?: Record<string, string>): Promise<Bytes>;
    saveTo(name: string, notes?: Record<string, string>): Promise<void>;
    step(x: Tensor, y: Tensor): Promise<TrainingStep>;
    toString(): string;
}

export interface TrainerOptions {
    batchSize?: number;
    detectAnomaly?: boolean;
    dropLast?: boolean;
    earlyStopping?: EarlyStopping;
    epochs?: number;
    generators?: readonly Generator[];
    metrics?: readonly Metric[];
    reduceOnPlateau?: Schedule;
    reportEvery?: number;
    schedule?: Schedule;
    scheduleByEpoch?: Schedule;
    shuffle?: number;
    validation?: TrainingData;
}

export type TrainingData = Batch | Batches | ((epoch: number) => Batches | Promise<Batches>);

export interface TrainingStep {
    readonly batch: number;
    readonly ended: Epoch | undefined;
    readonly epoch: number;
    readonly loss: Tensor;
    readonly lr: number;
    readonly meanLoss: number | undefined;
    readonly step: number;
}

export interface TransformerOptions {
    activation?: Activation;
    dimFeedforward?: number;
    dropout?: number;
    normFirst?: boolean;
}

export interface TripletMarginOptions {
    eps?: number;
    margin?: number;
    p?: number;
    reduction?: LossReduction;
    swap?: boolean;
}

export interface TuneOptions {
    again?: boolean;
}

export interface Tuned {
    kernelConfig: string;
    measured: boolean;
}

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

export class Variable {
    [Symbol.dispose](): void;
    assign(value: Tensor): void;
    assignSlice(axis: number, start: number, source: Tensor): void;
    constructor(value: Tensor);
    dispose(): void;
    readonly disposed: boolean;
    takeGradient(): Tensor | undefined;
    readonly value: Tensor;
}

export interface WarmRestartsOptions {
    etaMin?: number;
    tMult?: number;
}

export declare class WarpweftError extends Error {
    readonly code: ErrorCode;
    constructor(code: ErrorCode, message: string, options?: ErrorOptions);
    readonly name = "WarpweftError";
}

type WasmModule = typeof globalThis extends {
    WebAssembly: {
        Module: {
            prototype: infer T;
        };
    };
} ? T : object;

export type WasmSource = PlatformUrl | string | PlatformResponse | ArrayBuffer | ArrayBufferView | WasmModule;

export interface WasmSources {
    cpu?: WasmSource | PromiseLike<WasmSource>;
    gpu?: WasmSource | PromiseLike<WasmSource>;
}

export class WeightAverage {
    [Symbol.dispose](): void;
    private constructor();
    dispose(): void;
    readonly disposed: boolean;
    swap(): void;
    update(): void;
}

export interface Yogi {
    betas?: [number, number];
    eps?: number;
    initialAccumulator?: number;
    lr?: number;
    weightDecay?: number;
}

export function deleteModel(model: string | PlatformUrl): Promise<boolean>;

export function keptModels(): Promise<KeptModel[]>;

export declare function preload(settings?: DeviceOptions): void;

export declare function setDebug(words: string): void;
