/** A message of a conversation. It may have more fields, for the chat template. */
export interface Message {
  /** Who wrote it: `system`, `user`, `assistant`, `tool`. */
  role: string;
  /** The text. */
  content: string;
  [name: string]: unknown;
}

/**
 * Where a model is: a GGUF file, or all parts of one (`-00001-of-00003.gguf`) in a list, the first part first. A string is an
 * address; in Node, Deno and Bun also a path. Addresses are read by ranges, and a `Response` as a whole.
 *
 * All but a `Response` and bytes are read again when that is needed: after the device was lost, in the middle of an answer,
 * too, which goes on with a new device; and after the weights were evicted, because the memory of the device was short
 * (`Device.setMemoryLimit`) and nothing used them. `onProgress` is called again then.
 */
export type ModelSource = PlatformBlob | PlatformResponse | PlatformUrl | string | ArrayBuffer | ArrayBufferView;

/** How a model is loaded. */
export interface ModelOptions {
  /** The device that it is to be on; usually `Device.new()`. */
  device?: Device;
  /** Tokens of the longest context; usually what the model was trained for, 4,096 at most. */
  context?: number;
  /**
   * How the context keeps keys and values; usually `f16` where the device has it: it takes half of the memory, and moves logits
   * by less than 0.1.
   */
  cache?: "f16" | "f32";
  /**
   * Is called with the bytes that were read, and with all bytes. While a model is downloaded as a whole, because `keep` or
   * `sha256` is set or because the server knows no ranges, these are the bytes that were received.
   */
  onProgress?: (progress: ModelProgress) => void;
  /**
   * Ends the loading, which is rejected with the signal's reason. With `keep`, the next load continues the download.
   */
  signal?: PlatformSignal;
  /**
   * Keeps the files of addresses in the browser, in the origin private file system. The next load with `keep` reads them from
   * there, without asking the server: {@link deleteModel} a file to get a newer one. If a download breaks off, or the page is
   * closed, the next load continues it, provided that the server still sends the same `ETag` or `Last-Modified`.
   *
   * Pages and workers of Chromium, Firefox and Safari 26 on https and localhost have it; elsewhere it is an `Unsupported`
   * error. The browser may delete what a site keeps when the disk is full, unless the page called
   * `navigator.storage.persist()`. Usually false.
   */
  keep?: boolean;
  /**
   * The SHA-256 of the file as 64 hexadecimal digits; for a list of parts, a list with the hash of each part. A file with
   * another hash is a `Data` error before anything is made of it, and is not kept. A file of an address is then downloaded as a
   * whole.
   */
  sha256?: string | readonly string[];
}

/** How far the loading of a model is. */
export interface ModelProgress {
  /** Bytes that were read. */
  readonly done: number;
  /** All bytes. */
  readonly total: number;
  /** An estimate of the seconds that the rest takes; undefined until there is one, and at the end. */
  readonly seconds: number | undefined;
}

/** A model file that the browser keeps for this site. */
export interface KeptModel {
  /** The last part of its address. */
  readonly name: string;
  /** The address that it was downloaded from. */
  readonly url: string;
  /** Bytes that are stored. */
  readonly bytes: number;
  /** Bytes of the whole file: more than `bytes` if the download was interrupted, or is under way. */
  readonly total: number;
}

/**
 * Lists the model files that the option `keep` of {@link LanguageModel.load} stored. Each part of a split model is a file.
 *
 * @throws `Unsupported` where there is no origin private file system, as in Node.
 */
export function keptModels(): Promise<KeptModel[]>;

/**
 * Deletes a kept model file, by its address or its name, and gives whether there was one.
 *
 * @throws `Data` while the file is being downloaded, and for a name that several files have; `Unsupported` where there is no
 * origin private file system, as in Node.
 */
export function deleteModel(model: string | PlatformUrl): Promise<boolean>;

/** How a text goes on. */
export interface GenerateOptions {
  /** The most tokens; usually as many as the context has room for. */
  maxTokens?: number;
  /** Divides the logits. The default, 0, always takes the likeliest token. */
  temperature?: number;
  /** Only so many of the likeliest tokens are drawn from; 0 for all. */
  topK?: number;
  /** Only the likeliest tokens that have this probability together; 1 for all. At most 1,024 tokens, or `topK`. */
  topP?: number;
  /** Only tokens whose probability is at least this part of the likeliest one's; 0 for all. As `topP`. */
  minP?: number;
  /** For tokens that are there already: divides positive logits and multiplies negative ones; 1 for none. */
  repetitionPenalty?: number;
  /** Is subtracted from the logit of a token for each time that it is there already. */
  frequencyPenalty?: number;
  /** Is subtracted from the logit of a token that is there already. */
  presencePenalty?: number;
  /** Is added to the logits of some tokens. */
  logitBias?: readonly (readonly [token: number, more: number])[];
  /** Where the draws begin: equal seeds draw equal tokens. Usually another one each time. */
  seed?: number;
  /** Texts that end it; they are not part of it. */
  stop?: string | readonly string[];
  /** How many of the likeliest tokens are told for each token, with their probabilities. */
  likeliest?: number;
  /** Go on after a token that ends what the model has to say. */
  ignoreEnd?: boolean;
  /** Ends it between two tokens: the text that is there stays, and the loop is rejected with the signal's reason. */
  signal?: PlatformSignal;
}

/** A token that was generated. */
export interface GeneratedToken {
  /** Its number. */
  readonly id: number;
  /** The text that is known now: whole characters, which may come with a later token. */
  readonly text: string;
  /** The natural logarithm of its probability, by the model alone. */
  readonly logprob: number;
  /** The likeliest tokens and the logarithms of their probabilities. */
  readonly likeliest: readonly (readonly [token: number, logprob: number])[];
}

/** Why a text ended. */
export type Finish = "end" | "stop" | "maxTokens" | "contextFull";

/** Bytes that a model takes on a device. */
export interface ModelEstimate {
  /** The weights. */
  readonly weights: number;
  /** Keys and values of a full context. */
  readonly cache: number;
  /** Temporary values of a step. */
  readonly temporaries: number;
  /** All of it. */
  readonly total: number;
}

export interface LanguageModel {
  /**
   * Answers the last message of a conversation. What the model has seen of the conversation already is not computed again. A
   * text that was under way ends.
   *
   * @throws `Unsupported` if the model has no chat template; `Data` for messages that its template refuses.
   */
  chat(messages: readonly Message[], options?: GenerateOptions): Generation;
  /**
   * Goes on with a text, or with tokens.
   *
   * @throws `Limit` if the context is too short.
   */
  generate(prompt: string | ArrayLike<number>, options?: GenerateOptions): Generation;
}

/**
 * Where a model is that Hugging Face's `transformers` saved, a folder with `config.json`, `tokenizer.json` and
 * `model.safetensors` or several files and their index. It is the address of the folder, which ends with a slash; in Node,
 * Deno and Bun also its path; a folder that the browser opened; or an object with the files by their names. The visitor's
 * files of a folder are a list of files, one of which is `config.json`.
 */
export type ModelFolder =
  | PlatformUrl
  | string
  | PlatformFolder
  | ArrayLike<PlatformBlob>
  | Readonly<Record<string, ModelSource>>;

export namespace LanguageModel {
  /**
   * Loads a model: of the families `llama` (Llama 2 and 3, SmolLM2, Mistral) and `gemma3`. The source is a GGUF file, the parts
   * of one, or a folder with safetensors files, for which `keep` and `sha256` are not supported. Weights go to the device
   * piece by piece.
   *
   * @throws `Data` if the file is damaged; `Unsupported` for other families; `Memory` if the device, or the browser's storage
   * with `keep`, has not enough.
   */
  function load(source: ModelSource | readonly ModelSource[] | ModelFolder, options?: ModelOptions): Promise<LanguageModel>;
  /**
   * Estimates the memory that a model takes on a device. Only the beginning of the file is read: nothing is kept, and no hash
   * is checked.
   */
  function estimate(source: ModelSource | readonly ModelSource[] | ModelFolder, options?: ModelOptions): Promise<ModelEstimate>;
}

export interface Generation extends AsyncIterable<string> {
  /** Its tokens, one by one. */
  tokens(): AsyncGenerator<GeneratedToken, void, undefined>;
  /** All of the text that is still to come. */
  text(): Promise<string>;
}

/**
 * Where an encoder is, a folder of files such as `config.json`, `tokenizer.json`, `1_Pooling/config.json` and
 * `model.safetensors`: the address of the folder, in Node, Deno and Bun also its path; a folder that the browser opened, or the
 * files of a folder that the visitor picked or dropped; or an object with the files by their names.
 */
export type EmbedderSource =
  | PlatformUrl
  | string
  | PlatformFolder
  | ArrayLike<PlatformBlob>
  | Readonly<Record<string, ModelSource>>;

/** How an encoder is loaded. */
export interface EmbedderOptions {
  /** The device that it is to be on; usually `Device.new()`. */
  device?: Device;
  /** Is called with the bytes that were read, and with all bytes. */
  onProgress?: (progress: ModelProgress) => void;
  /** Ends the loading, which is rejected with the signal's reason. */
  signal?: PlatformSignal;
}

/** How texts are embedded. */
export interface EmbedOptions {
  /** A text in front of each text, such as `query: `. */
  prompt?: string;
  /**
   * The name of a prompt of the model's own, such as `query`. Without either it is the model's default prompt, if it has one.
   */
  promptName?: string;
}

export namespace Embedder {
  /**
   * Loads an encoder of the families BERT (MiniLM, E5, BGE, Arctic) and XLM-RoBERTa, as sentence-transformers saves it.
   *
   * @throws `Data` if a file is missing or damaged; `Unsupported` for other families; `Memory`.
   */
  function load(source: EmbedderSource, options?: EmbedderOptions): Promise<Embedder>;
}

/** A linear layer in each layer of a model, by its name in Hugging Face's `transformers`. */
export type Projection = "q_proj" | "k_proj" | "v_proj" | "o_proj" | "gate_proj" | "up_proj" | "down_proj";

/** How a new adapter is made. The defaults are those of Hugging Face's `peft`. */
export interface AdapterOptions {
  /** Rows of the first matrix of each pair, and columns of the second; usually 8. */
  rank?: number;
  /** The product of each pair is multiplied with `alpha / rank`; usually 8. */
  alpha?: number;
  /** The layers that are adapted; usually `q_proj` and `v_proj`. */
  targets?: readonly Projection[];
  /** Multiplies with `alpha / sqrt(rank)` instead (rsLoRA). Usually false. */
  rankStabilized?: boolean;
  /** The seed of the random values that it begins with. Usually another one each time. */
  seed?: number;
}

/** An adapter as the two files of Hugging Face's `peft`. */
export interface AdapterFiles {
  /** The text of `adapter_config.json`. */
  readonly config: string;
  /** The bytes of `adapter_model.safetensors`. */
  readonly weights: Uint8Array;
}

/**
 * A text, tokens or a conversation to learn from. Of a conversation the last message is learned. `prompt` is the number of
 * tokens at the beginning that are only read.
 */
export type AdapterExample =
  | string
  | readonly Message[]
  | { readonly tokens: ArrayLike<number>; readonly prompt?: number };

export interface LoraAdapter {
  /**
   * The mean cross-entropy of the tokens that are learned, in all examples together: one number. An {@link Optimizer} of the
   * adapter's parameters minimizes it. Examples of similar lengths are best given together.
   *
   * @throws `Data` for no example, or one of which no token is learned; `Limit` for one that is longer than the context.
   */
  loss(examples: readonly AdapterExample[]): Tensor;
}
