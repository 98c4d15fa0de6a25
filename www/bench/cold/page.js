// Pages that compute one small thing with one library each: how long that takes from the start of loading, and what is
// downloaded for it. Each in its own words, as its documentation has them, with no more of the library imported than the
// bundler needs.

/** Two matrices of this extent are multiplied. */
export const count = 64;
const values = (seed) => Float32Array.from({ length: count * count }, (_, i) => ((i * seed) % 13) / 13 - 0.5);
const [a, b] = [values(7), values(11)];

function check(result) {
  for (let i = 0; i < count * count; i += 37) {
    let sum = 0;
    for (let k = 0; k < count; k++) sum += a[Math.floor(i / count) * count + k] * b[k * count + (i % count)];
    if (!(Math.abs(result[i] - Math.max(sum, 0)) <= 1e-4)) return `wrong result: element ${i} is ${result[i]}`;
  }
  return undefined;
}

/** Measures from the start of loading to the first result: `compute([a, b])` gives `relu(a b)`, read. */
export function measure(compute) {
  window.cold = (async () => {
    const result = await compute([a, b]);
    const ms = performance.now();
    return { ms, error: check(result) };
  })();
}
