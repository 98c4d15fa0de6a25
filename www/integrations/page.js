// Shows the matrix product that this thread computes, and the one of a worker. Most integrations use this module.

/** Which device the page's address asks for: `?prefer=cpu`. */
export const prefer = new URLSearchParams(location.search).get("prefer") ?? "auto";

/** Shows what a promise gives, or why it gives nothing. */
export async function show(id, promise) {
  document.getElementById(id).textContent = await promise.catch((error) => String(error));
}

/** What a worker answers. */
export function ask(worker) {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(`the worker failed: ${message}`));
    worker.postMessage(prefer);
  });
}
