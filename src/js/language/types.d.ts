/** A message of a conversation. Additional fields are passed to the chat template. */
export interface Message {
  /** The role of the author: `system`, `user`, `assistant` or `tool`. */
  role: string;
  /** The text. Half of a surrogate pair becomes U+FFFD, as in `TextEncoder`. */
  content: string;
  [name: string]: unknown;
}

/**
 * One file of a model: a GGUF file, or one part of a split one (`-00001-of-00003.gguf`). {@link LanguageModel.load} also takes
 * a list of all parts, in order. A string is a URL. In Node, Deno and Bun it may also be a path. URLs are read by range
 * requests, and a `Response` as a whole.
 *
 * A request is repeated if the connection breaks, and if the server answers 429 or 5xx: up to three times, after 0.5, 1 and 2
 * seconds, or after the seconds of `Retry-After`, at most 30. An answer with fewer bytes than requested is continued at once.
 *
 * Sources other than a `Response` and bytes are read again if needed. This happens when the device was lost, even during an
 * answer, which continues on a new device. It also happens when unused weights were evicted because device memory was short
 * (`Device.setMemoryLimit`). `onProgress` is called again then.
 */
export type ModelSource = PlatformBlob | PlatformResponse | PlatformUrl | string | ArrayBuffer | ArrayBufferView;

/** The options of {@link LanguageModel.load}. */
export interface ModelOptions {
  /** The device of the model. Default: a new device, as from `Device.new()`. */
  device?: Device;
  /** The length of the longest context in tokens, at least 1. Default: the length the model was trained for, at most 4,096. */
  context?: number;
  /**
   * The type of keys and values in the cache. Default: `f16` if the device supports it. `f16` takes half of the memory and
   * changes logits by less than 0.1.
   */
  cache?: "f16" | "f32";
  /**
   * Called with the number of bytes read and the total. If a file is downloaded as a whole, these are the bytes received. That
   * is the case if `keep` or `sha256` is set, or if the server does not support range requests. `done / total` never falls.
   */
  onProgress?: (progress: ModelProgress) => void;
  /**
   * Aborts the loading. The promise rejects with the signal's reason. With `keep`, the next load continues the download.
   */
  signal?: PlatformSignal;
  /**
   * Whether downloaded files are kept in the browser, in the origin private file system. The next load with `keep` reads them
   * without a request to the server. Call {@link deleteModel} to get a newer file. An interrupted download continues at the
   * next load, if the server still sends the same `ETag` or `Last-Modified`.
   *
   * Supported in pages and workers of Chromium, Firefox and Safari 26, on https and localhost. Elsewhere it is an `Unsupported`
   * error. The browser may delete stored files when the disk is full, unless the page called `navigator.storage.persist()`.
   * Default: false.
   */
  keep?: boolean;
  /**
   * The SHA-256 of the file as 64 hexadecimal digits, or a list with the hash of each part. A file with another hash is a
   * `Format` error before anything is made of it, and is not kept. With a hash, a file of a URL is downloaded as a whole.
   */
  sha256?: string | readonly string[];
}

/** The progress of loading a model. */
export interface ModelProgress {
  /** The bytes that were read. */
  readonly done: number;
  /** The total number of bytes. */
  readonly total: number;
  /** The estimated seconds that remain. Undefined at first and at the end. */
  readonly seconds: number | undefined;
}

/** A model file that is stored in the browser for this site. */
export interface KeptModel {
  /** The last part of the URL. */
  readonly name: string;
  /** The URL that the file was downloaded from. */
  readonly url: string;
  /** The number of stored bytes. */
  readonly bytes: number;
  /** The size of the whole file in bytes. More than `bytes` if the download was interrupted or is in progress. */
  readonly total: number;
}

/**
 * Lists the model files that were stored by the option `keep` of {@link LanguageModel.load}. Each part of a split model is a
 * file.
 *
 * @throws `Unsupported` without an origin private file system, as in Node.
 */
export function keptModels(): Promise<KeptModel[]>;

/**
 * Deletes a stored model file by its URL or name, and returns whether it existed.
 *
 * @throws `InvalidState` while the file is being downloaded; `InvalidArgument` if several files have this name; `Unsupported`
 * if there is no origin private file system, as in Node.
 */
export function deleteModel(model: string | PlatformUrl): Promise<boolean>;

/** The options of text generation. */
export interface GenerateOptions {
  /** The most tokens to generate. Default: as many as the context has room for. */
  maxTokens?: number;
  /**
   * The sampling temperature, which divides the logits. Default: 0, which always takes the likeliest token, as does any number
   * below 1e-6.
   */
  temperature?: number;
  /** Top-k sampling: draws only from this many of the likeliest tokens. Default: 0, for all tokens. */
  topK?: number;
  /**
   * Nucleus sampling: draws only from the likeliest tokens that together have this probability. Default: 1, for all tokens.
   * Considers at most `topK` tokens, or 1,024 without it.
   */
  topP?: number;
  /**
   * Min-p sampling: draws only tokens with at least this fraction of the likeliest token's probability. Default: 0, for all
   * tokens. Considers as many tokens as `topP`.
   */
  minP?: number;
  /**
   * The penalty for tokens that occur already: positive logits are divided by it, and negative ones multiplied. Default: 1, for
   * no penalty.
   */
  repetitionPenalty?: number;
  /** Subtracted from the logit of a token for each time that it occurs already. */
  frequencyPenalty?: number;
  /** Subtracted once from the logit of a token that occurs already. */
  presencePenalty?: number;
  /**
   * Numbers that are added to the logits of some tokens, at most 65,536 pairs. `-Infinity` excludes a token. `NaN` and
   * `Infinity` are errors.
   */
  logitBias?: readonly (readonly [token: number, more: number])[];
  /** The seed of the draws. Equal seeds draw equal tokens. Default: a random seed. */
  seed?: number;
  /** Texts that end the generation, at most 65,536. They are not part of the result. */
  stop?: string | readonly string[];
  /** The number of likeliest tokens that are reported with each token, with their probabilities. */
  likeliest?: number;
  /** Whether generation continues after the model's end token. */
  ignoreEnd?: boolean;
  /**
   * Aborts the generation between two tokens. The text so far is kept, and `nextToken()`, `text()` and loops reject with the
   * signal's reason. A text that is finished cannot be aborted: if the last token was being computed, it is returned.
   */
  signal?: PlatformSignal;
}

/** A generated token. */
export interface GeneratedToken {
  /** The number of the token. */
  readonly id: number;
  /**
   * The text that became complete with this token. Only whole characters are given, so a character may come with a later token.
   */
  readonly text: string;
  /** The natural logarithm of the token's probability in the model, without sampling options. */
  readonly logprob: number;
  /** The likeliest tokens, with the logarithms of their probabilities. */
  readonly likeliest: readonly (readonly [token: number, logprob: number])[];
}

/** The reason why a text ended. */
export type Finish = "end" | "stop" | "maxTokens" | "contextFull";

/** The memory that a model takes on a device, in bytes. */
export interface ModelEstimate {
  /** The weights. */
  readonly weights: number;
  /** The keys and values of a full context. */
  readonly cache: number;
  /** The temporary values of a step. */
  readonly temporaries: number;
  /** The sum of all parts. */
  readonly total: number;
}

export interface LanguageModel {
  /**
   * Answers the last message of a conversation. The part of the conversation that is still in the cache is not computed again.
   * A generation in progress is ended.
   *
   * @throws `Unsupported` if the model has no chat template; `InvalidArgument` if the template rejects the messages.
   */
  chat(messages: readonly Message[], options?: GenerateOptions): Generation;
  /**
   * Continues a text or a list of tokens: an array, a typed array or an array-like object of any length. In a text, half of a
   * surrogate pair becomes U+FFFD.
   *
   * @throws `Limit` if the prompt does not fit into the context.
   */
  generate(prompt: string | ArrayLike<number>, options?: GenerateOptions): Generation;
}

/**
 * The source of a model saved by Hugging Face's `transformers`. It is a folder with `config.json`, `tokenizer.json`, and
 * `model.safetensors` or several weight files with their index. Give one of these:
 *
 * - the URL of the folder, with a final slash; in Node, Deno and Bun also its path;
 * - a folder that the browser opened;
 * - a list of the visitor's files, one of which is `config.json`;
 * - an object with the files by name.
 *
 * If a server answers 403, 404 or 410 for a file other than `config.json`, `tokenizer.json` and the weights, the file counts as
 * absent.
 */
export type ModelFolder =
  | PlatformUrl
  | string
  | PlatformFolder
  | ArrayLike<PlatformBlob>
  | Readonly<Record<string, ModelSource>>;

export namespace LanguageModel {
  /**
   * Loads a model of the families `llama` (Llama 2 and 3, SmolLM2, Mistral) or `gemma3`. The source is a GGUF file, all parts
   * of one, or a folder with safetensors files. Folders do not support `keep` and `sha256`. Weights are uploaded to the device
   * in pieces.
   *
   * @throws `Format` if the file is damaged; `Unsupported` for other families; `Memory` if the device does not have enough
   * memory, or with `keep` the browser not enough storage.
   */
  function load(source: ModelSource | readonly ModelSource[] | ModelFolder, options?: ModelOptions): Promise<LanguageModel>;
  /**
   * Estimates the memory that a model takes on a device. Reads only the beginning of the file. Nothing is stored, and no hash
   * is checked.
   */
  function estimate(source: ModelSource | readonly ModelSource[] | ModelFolder, options?: ModelOptions): Promise<ModelEstimate>;
}

export interface Generation extends AsyncIterable<string> {
  /** Iterates over the generated tokens. */
  tokens(): AsyncGenerator<GeneratedToken, void, undefined>;
  /** Returns all of the remaining text. */
  text(): Promise<string>;
}

/**
 * The source of an encoder: a folder with files such as `config.json`, `tokenizer.json`, `1_Pooling/config.json` and
 * `model.safetensors`. Give one of these:
 *
 * - the URL of the folder; in Node, Deno and Bun also its path;
 * - a folder that the browser opened;
 * - a list of files that the visitor picked or dropped;
 * - an object with the files by name.
 */
export type EmbedderSource =
  | PlatformUrl
  | string
  | PlatformFolder
  | ArrayLike<PlatformBlob>
  | Readonly<Record<string, ModelSource>>;

/** The options of {@link Embedder.load}. */
export interface EmbedderOptions {
  /** The device of the encoder. Default: a new device, as from `Device.new()`. */
  device?: Device;
  /** Called with the number of bytes read and the total. */
  onProgress?: (progress: ModelProgress) => void;
  /** Aborts the loading. The promise rejects with the signal's reason. */
  signal?: PlatformSignal;
}

/** The options of {@link Embedder.embed}. A call embeds at most 65,536 texts. */
export interface EmbedOptions {
  /** A text that is put in front of each text, such as `query: `. */
  prompt?: string;
  /**
   * The name of a prompt that the model defines, such as `query`. Without `prompt` and `promptName`, the model's default prompt
   * is used, if it has one.
   */
  promptName?: string;
}

export namespace Embedder {
  /**
   * Loads an encoder of the family BERT (MiniLM, E5, BGE, Arctic) or XLM-RoBERTa, saved by sentence-transformers.
   *
   * @throws `Format` if a file is missing or damaged; `Unsupported` for other families; `Memory`.
   */
  function load(source: EmbedderSource, options?: EmbedderOptions): Promise<Embedder>;
}

/** A linear layer in each layer of a model, by its name in Hugging Face's `transformers`. */
export type Projection = "q_proj" | "k_proj" | "v_proj" | "o_proj" | "gate_proj" | "up_proj" | "down_proj";

/** The options of a new adapter. The defaults are those of Hugging Face's `peft`. */
export interface AdapterOptions {
  /** The rank: rows of the first matrix of each pair, and columns of the second. Default: 8. */
  rank?: number;
  /** The scale. The product of each pair is multiplied by `alpha / rank`. Default: 8. */
  alpha?: number;
  /** The layers to adapt. Default: `q_proj` and `v_proj`. */
  targets?: readonly Projection[];
  /** Whether products are multiplied by `alpha / sqrt(rank)` instead (rsLoRA). Default: false. */
  rankStabilized?: boolean;
  /** The seed of the random initial values. Default: a random seed. */
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
 * A training example: a text, tokens, or a conversation, of which the last message is learned. The first `prompt` tokens are
 * read, but not learned.
 */
export type AdapterExample =
  | string
  | readonly Message[]
  | { readonly tokens: ArrayLike<number>; readonly prompt?: number };

export interface LoraAdapter {
  /**
   * Returns the mean cross-entropy of all learned tokens in all examples, as one number. An {@link Optimizer} of the adapter's
   * parameters minimizes it. Put examples of similar lengths together.
   *
   * @throws `InvalidArgument` for no example, or one of which no token is learned; `Limit` for one that is longer than the
   * context.
   */
  loss(examples: readonly AdapterExample[]): Tensor;
}
