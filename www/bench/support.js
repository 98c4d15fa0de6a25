// Parts that the pages of the benchmarks share: a limit for what hangs, the words of an error, and the adapter's name.

/** The words of an error, as long as a table takes. */
export const words = (error) => String(error?.message ?? error).slice(0, 300);

/** What a promise gives, or an error once `most` milliseconds have passed. */
export function limited(promise, most) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer after ${most / 1000} s`)), most);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The name of the WebGPU adapter that the libraries get. */
export async function adapter() {
  const found = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
  if (!found) return "no WebGPU";
  const { description, vendor, architecture, device, isFallbackAdapter } = found.info;
  const name = description || `${vendor} ${architecture} ${device}`.trim() || "an adapter without a name";
  return isFallbackAdapter ? `${name} (software)` : name;
}
