// Runs the network on this thread and in a worker, and shows both results. `?prefer=cpu` and other values choose the device.

import { runNetwork, type Answer } from "./network";

const prefer = new URLSearchParams(location.search).get("prefer") ?? "auto";

function show(where: string, answer: Answer | { error: string }): void {
  const output = document.getElementById(where) as HTMLOutputElement;
  output.textContent =
    "error" in answer
      ? answer.error
      : `${answer.probabilities.map((row) => row.map((p) => p.toFixed(4)).join(" ")).join("; ")} on ${answer.device}`;
  output.dataset.answer = JSON.stringify(answer);
}

const failed = (error: unknown) => ({ error: String(error) });

const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
worker.onmessage = ({ data }) => show("worker", data.answer ?? data);
worker.onerror = ({ message }) => show("worker", { error: message });
worker.postMessage(prefer);

show("main", await runNetwork(prefer).catch(failed));
