// Which machine to use: what the browser offers, and what is asked for. Nothing is loaded to find out.

import { refused } from "./host.js";
import { WarpweftError } from "./errors.js";
import type { CoreName } from "./load.js";

/** What a device is. */
export interface DeviceInfo {
  /** `webgpu` or `cpu`. */
  readonly backend: string;
  /** The adapter's own name, as far as the browser tells. */
  readonly name: string;
  /** Who made it, where the browser tells. */
  readonly vendor: string;
  /**
   * `gpu` (browsers do not tell more), `cpu`, or `software`: a software GPU, such as SwiftShader.
   */
  readonly kind: "discrete" | "integrated" | "gpu" | "cpu" | "software";
  /** The driver and its version, where known. */
  readonly driver: string;
}

/** A device that was found, or why one is not there. */
export interface Found {
  /** What it is. Where a backend offers nothing, its word alone. */
  readonly info: DeviceInfo;
  /** Whether it can be opened. */
  readonly available: boolean;
  /** The largest buffer a kernel can use, in bytes; undefined where only opening it tells. */
  readonly bindingBytes?: number;
  /** Whether it stores 16-bit floats; undefined where only opening it tells. */
  readonly f16?: boolean;
  /** Whether neighbouring threads can pass values to each other; undefined where only opening it tells. */
  readonly subgroups?: boolean;
  /** Whether it measures how long its kernels take; undefined where only opening it tells. */
  readonly timestamps?: boolean;
  /** Whether `Device.new()` would take it. */
  readonly recommended: boolean;
  /** Why it is not there, or not taken unasked. */
  readonly reason?: string;
}

/** What to open, and why it is not what one would expect. */
export interface Choice {
  core: CoreName;
  /** The adapter of the GPU to open. */
  adapter?: GPUAdapter;
  /** Whether the browser is to choose the GPU that takes least power. */
  lowPower?: boolean;
  fallback?: string;
}

/** An adapter, and what it is. */
interface Offer extends Omit<Found, "recommended" | "available"> {
  adapter: GPUAdapter;
}

/** Firefox says no more of an adapter than whether the CPU computes it. */
const unnamed = "WebGPU adapter (the browser does not name it)";

/** What the browser offers, or why that is nothing. */
async function offer(powerPreference: GPUPowerPreference): Promise<Offer | string> {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) {
    return globalThis.isSecureContext === false
      ? "WebGPU needs a secure context: https, or localhost"
      : "no WebGPU here: `navigator.gpu` is missing";
  }
  let found: GPUAdapter | null = null;
  try {
    // Browsers give none now and then at the first time of asking.
    for (let tries = 0; tries < 3 && !found; tries++) found = await gpu.requestAdapter({ powerPreference });
  } catch (error) {
    return `WebGPU refused an adapter: ${String(error)}`;
  }
  if (!found) return "WebGPU offers no adapter here";
  // Browsers of the first days can not say what an adapter is, and lack more than that.
  if (!found.info) return "this browser's WebGPU is too old";
  const { vendor, architecture, description, isFallbackAdapter } = found.info;
  const words = `${description} ${vendor} ${architecture} ${found.info.device}`.toLowerCase();
  const software = isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|basic render/.test(words);
  const name = description || `${vendor} ${architecture}`.trim() || unnamed;
  return {
    adapter: found,
    info: { backend: "webgpu", name, vendor, kind: software ? "software" : "gpu", driver: "" },
    bindingBytes: Math.min(found.limits.maxStorageBufferBindingSize, found.limits.maxBufferSize),
    f16: found.features.has("shader-f16"),
    subgroups: found.features.has("subgroups"),
    timestamps: found.features.has("timestamp-query"),
    ...(software && { reason: "a software GPU: only when asked for" }),
  };
}

const cpu = { info: { backend: "cpu", name: "CPU", vendor: "", kind: "cpu", driver: "" } } as const;

/** All devices, the recommended one first; then WebGPU, where it offers none. */
export async function discover(): Promise<Found[]> {
  return list(await offer("high-performance"));
}

function list(gpu: Offer | string): Found[] {
  const [available, first, other] = [true, { recommended: true }, { recommended: false }];
  if (typeof gpu === "string") {
    const info = { backend: "webgpu", name: "", vendor: "", kind: "gpu", driver: "" } as const;
    return [{ ...cpu, available, ...first }, { info, available: false, ...other, reason: gpu }];
  }
  const { adapter: _, ...found } = gpu;
  if (found.reason) return [{ ...cpu, available, ...first }, { ...found, available, ...other }];
  return [{ ...found, available, ...first }, { ...cpu, available, ...other, reason: `${found.info.name} comes first` }];
}

/** Whether there is a GPU other than a software one. */
export async function isAvailable(): Promise<boolean> {
  const gpu = await offer("high-performance");
  return typeof gpu !== "string" && gpu.info.kind !== "software";
}

const nothing = (prefer: unknown, why: string) => {
  const shown = typeof prefer === "string" ? `"${prefer}"` : prefer;
  return new WarpweftError("NoDevice", `device: the preference must match a device, got ${shown}: ${why}`);
};

/** What to open for a preference. */
export async function choose(prefer: unknown): Promise<Choice> {
  if (typeof prefer !== "string" && typeof prefer !== "number") {
    throw refused("device", "prefer", "a string or a number", prefer);
  }
  if (prefer === "cpu") return { core: "cpu" };
  const gpu = await offer(prefer === "low-power" ? "low-power" : "high-performance");
  const words = ["auto", "gpu", "low-power", "software"];
  if (typeof prefer === "number" || !words.includes(prefer)) return chooseFound(prefer, gpu);
  const software = typeof gpu !== "string" && gpu.info.kind === "software";
  if (prefer === "software") {
    if (software) return { core: "gpu", adapter: gpu.adapter };
    throw nothing(prefer, typeof gpu === "string" ? gpu : `${gpu.info.name} is a GPU`);
  }
  if (typeof gpu !== "string" && !software) return { core: "gpu", adapter: gpu.adapter, lowPower: prefer === "low-power" };
  const why = typeof gpu === "string" ? gpu : `${gpu.info.name} is a software GPU`;
  if (prefer !== "auto") throw nothing(prefer, why);
  return { core: "cpu", fallback: `${why}; computing on the CPU` };
}

/** By index in what `discover()` gives, or by part of the name. */
function chooseFound(prefer: string | number, gpu: Offer | string): Choice {
  const found = list(gpu).filter(({ available }) => available);
  const matches = (part: string) => found.find(({ info }) => info.name.toLowerCase().includes(part.toLowerCase()));
  // As text, too: preferences come from addresses and forms.
  const index = typeof prefer === "string" && /^\d+$/.test(prefer) ? Number(prefer) : prefer;
  const chosen = typeof index === "number" ? found[index] : matches(index);
  if (!chosen) throw nothing(prefer, `there is ${found.map(({ info }) => info.name).join(", ")}`);
  return typeof gpu === "string" || chosen.info.backend === "cpu" ? { core: "cpu" } : { core: "gpu", adapter: gpu.adapter };
}
