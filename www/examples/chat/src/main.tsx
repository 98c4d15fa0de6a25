// A chat with a language model from a GGUF file.

import { useEffect, useRef, useState, type DragEvent, type FormEvent } from "react";
import { createRoot } from "react-dom/client";
import type { Message } from "warpweft/models";
import type { Reply, Request } from "./worker";

function App() {
  const worker = useRef<Worker>(undefined);
  const [messages, setMessages] = useState<Message[]>([]);
  const [status, setStatus] = useState("Choose a GGUF file, drop one here, or enter its URL.");
  const [isBusy, setBusy] = useState(false);
  const [isLoaded, setLoaded] = useState(false);

  useEffect(() => {
    const started = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    started.onmessage = ({ data }: MessageEvent<Reply>) => {
      if ("progress" in data) setStatus(`Loading: ${Math.round((100 * data.progress.done) / data.progress.total)} %`);
      if ("piece" in data) {
        setMessages((all) => [...all.slice(0, -1), { role: "assistant", content: all.at(-1)!.content + data.piece }]);
      }
      if ("end" in data) {
        setBusy(false);
        setLoaded(data.isLoaded);
        setStatus(data.error ?? "Ready.");
      }
    };
    started.onerror = ({ message }) => setStatus(`The worker failed: ${message ?? "it could not be started"}`);
    worker.current = started;
    return () => started.terminate();
  }, []);

  const send = (request: Request) => worker.current!.postMessage(request);

  function load(source: File | string | undefined) {
    if (!source) return;
    if (isBusy) return setStatus("Another request is running. Stop it first.");
    setBusy(true);
    setStatus("Loading...");
    setMessages([]);
    send({ source });
  }

  function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const content = String(new FormData(event.currentTarget).get("question"));
    event.currentTarget.reset();
    const asked = [...messages, { role: "user", content }];
    setBusy(true);
    setStatus("Answering...");
    setMessages([...asked, { role: "assistant", content: "" }]);
    send({ messages: asked });
  }

  function loadUrl(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    load(String(new FormData(event.currentTarget).get("url")));
  }

  function drop(event: DragEvent) {
    event.preventDefault();
    load(event.dataTransfer.files[0]);
  }

  return (
    <main onDragOver={(event) => event.preventDefault()} onDrop={drop} style={{ minHeight: "90vh" }}>
      <form onSubmit={loadUrl}>
        <input type="file" accept=".gguf" aria-label="File" onChange={(event) => load(event.target.files?.[0])} />
        <input name="url" aria-label="URL" placeholder="URL of a GGUF file" required />
        <button disabled={isBusy}>Load</button>
      </form>
      <p role="status">{status}</p>
      {messages.map(({ role, content }, at) => <p key={at} className={role}>{content}</p>)}
      <form onSubmit={ask}>
        <input name="question" aria-label="Question" placeholder="Your question" required />
        <button disabled={isBusy || !isLoaded}>Ask</button>
        <button type="button" disabled={!isBusy} onClick={() => send({ stop: true })}>Stop</button>
      </form>
    </main>
  );
}

createRoot(document.getElementById("root")!).render(<App />);
