// Adapters for the Rust side, and the devices they open. Nothing here throws but what is awaited.

/** What an adapter is asked for where it has it. */
const FEATURES = ["shader-f16", "subgroups", "timestamp-query"];

/** What an adapter is asked for all it has of, in the order in which Rust is told. */
const LIMITS = [
  "maxStorageBuffersPerShaderStage",
  "maxBindingsPerBindGroup",
  "maxStorageBufferBindingSize",
  "maxBufferSize",
  "maxComputeWorkgroupsPerDimension",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupStorageSize",
];

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The adapter that the browser offers, or nothing. Browsers give none now and then at the first time of asking. */
export async function request(lowPower) {
  const powerPreference = lowPower ? "low-power" : "high-performance";
  for (let tries = 0; tries < 3; tries++) {
    if (tries) await pause(30);
    if (!globalThis.navigator?.gpu) return;
    // A page may be denied it: as good as none.
    const found = await (async () => navigator.gpu.requestAdapter({ powerPreference }))().catch(() => null);
    if (found) return new Adapter(found);
  }
}

/** Calls `tell` with 0 and what `promise` resolves to, or with 1 and what it is rejected with. */
export const answer = (promise, tell) => promise.then((value) => tell(0, value), (error) => tell(1, error));

class Adapter {
  constructor(/** @type {GPUAdapter} */ adapter) {
    this.adapter = adapter;
  }

  /** What it is called, and on a second line its vendor. */
  words() {
    const { description, vendor = "", architecture = "" } = this.adapter.info ?? {};
    return `${description || `${vendor} ${architecture}`.trim() || "GPU"}\n${vendor}`;
  }

  /** Whether it is computed by a CPU as far as it can be told, whether it has f16, its limits, and whether it has subgroups. */
  figures() {
    const { info, features, limits } = this.adapter;
    const words = `${info?.description} ${info?.vendor} ${info?.architecture} ${info?.device}`;
    const software = info?.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|basic render/i.test(words);
    const [f16, subgroups] = FEATURES.map((feature) => features.has(feature));
    return Float64Array.of(software, f16, ...LIMITS.map((name) => limits[name]), subgroups);
  }

  /** The device, or words of what went wrong. */
  async open() {
    const { features, limits } = this.adapter;
    const asked = [...LIMITS, "maxComputeWorkgroupSizeY", "maxComputeWorkgroupSizeZ"];
    try {
      return await this.adapter.requestDevice({
        label: "warpweft",
        requiredFeatures: FEATURES.filter((feature) => features.has(feature)),
        requiredLimits: Object.fromEntries(asked.map((name) => [name, limits[name]])),
      });
    } catch (error) {
      throw String(error?.message ?? error);
    }
  }
}
