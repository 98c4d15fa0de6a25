// The language model, in a worker, so that the page stays responsive.

import { LanguageModel, type Message, type ModelProgress } from "warpweft/models";

/** A request of the page: load a model, answer a conversation, or stop. */
export type Request = { source: File | string } | { messages: Message[] } | { stop: true };
/** A message to the page: progress, the next piece of an answer, or the end of a request, with an error if there is one. */
export type Reply = { progress: ModelProgress } | { piece: string } | { end: true; isLoaded: boolean; error?: string };

let model: LanguageModel | undefined;
let stop = new AbortController();

const post = (reply: Reply) => self.postMessage(reply);

async function handle(request: Exclude<Request, { stop: true }>): Promise<void> {
  stop = new AbortController();
  const { signal } = stop;
  if ("source" in request) {
    model?.dispose();
    model = undefined;
    const keep = typeof request.source === "string"; // The next visit loads it from the browser's storage.
    model = await LanguageModel.load(request.source, { keep, signal, onProgress: (progress) => post({ progress }) });
    return;
  }
  if (!model) throw new Error("Load a model first.");
  for await (const piece of model.chat(request.messages, { signal })) {
    post({ piece });
    await new Promise((resolve) => setTimeout(resolve)); // Lets a request to stop arrive.
  }
}

self.onmessage = async ({ data }: MessageEvent<Request>) => {
  if ("stop" in data) return stop.abort(new Error("Stopped."));
  const error = await handle(data).then(() => undefined, (error: Error) => error.message);
  post({ end: true, isLoaded: model !== undefined, error });
};
