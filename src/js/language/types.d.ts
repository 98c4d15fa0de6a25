/** A message of a conversation. What else a chat template uses may stand beside. */
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
  /** Hears how many bytes of the weights were read, and how many there are. */
  onProgress?: (bytes: { done: number; total: number }) => void;
  /** Ends the loading, which is rejected with its reason. */
  signal?: PlatformSignal;
}

/** How a text goes on. */
export interface GenerateOptions {
  /** The most tokens; usually as many as the context has room for. */
  maxTokens?: number;
  /** What logits are divided by; 0, as usually, takes the likeliest token. */
  temperature?: number;
  /** Only so many of the likeliest tokens are drawn from; 0 for all. */
  topK?: number;
  /** Only the likeliest tokens that have this probability together; 1 for all. At most 1,024 tokens, or `topK`. */
  topP?: number;
  /** Only tokens whose probability is at least this part of the likeliest one's; 0 for all. As `topP`. */
  minP?: number;
  /** What positive logits of tokens that are there already are divided by, and negative ones multiplied with; 1 for none. */
  repetitionPenalty?: number;
  /** What logits lose for each time that the token is there already. */
  frequencyPenalty?: number;
  /** What logits lose if the token is there already. */
  presencePenalty?: number;
  /** What is added to the logits of some tokens. */
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
  /** What a step needs on its way. */
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

export namespace LanguageModel {
  /**
   * Loads a model: of the families `llama` (Llama 2 and 3, SmolLM2, Mistral) and `gemma3`. Weights go to the device piece by
   * piece.
   *
   * @throws `Data` if the file is damaged; `Unsupported` for other families; `Memory` if the device has not enough.
   */
  function load(source: ModelSource | readonly ModelSource[], options?: ModelOptions): Promise<LanguageModel>;
  /** What a model would take on a device. Only the beginning of the file is read. */
  function estimate(source: ModelSource | readonly ModelSource[], options?: ModelOptions): Promise<ModelEstimate>;
}

export interface Generation extends AsyncIterable<string> {
  /** Its tokens, one by one. */
  tokens(): AsyncGenerator<GeneratedToken, void, undefined>;
  /** All of the text that is still to come. */
  text(): Promise<string>;
}
