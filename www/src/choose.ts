// The choice of a device from the browser's offer and the user's preference. Nothing is downloaded for it.

import { refused } from "./host.js";
import { WarpweftError } from "./errors.js";
import type { CoreName } from "./load.js";

/** A device's name and kind. */
export interface DeviceInfo {
  /** The kind of backend: `webgpu` or `cpu`. */
  readonly backend: string;
  /** The adapter's name, as far as the browser reveals it. */
  readonly name: string;
  /** The vendor, if the browser reveals it. */
  readonly vendor: string;
  /** The kind of device. Browsers report real GPUs only as `gpu`. `software` is a software GPU, such as SwiftShader. */
  readonly kind: "discrete" | "integrated" | "gpu" | "cpu" | "software";
  /** The driver and its version, if known. */
  readonly driver: string;
}

/** A device that was found, or a backend without a device. */
export interface Found {
  /** The name and kind of the device. If a backend has no device, only `backend` is set. */
  readonly info: DeviceInfo;
  /** Whether the device can be opened. */
  readonly available: boolean;
  /** The largest buffer of a kernel in bytes. Undefined if it is known only after opening. */
  readonly bindingBytes?: number;
  /** Whether the device stores 16-bit floats. Undefined if it is known only after opening. */
  readonly f16?: boolean;
  /** Whether the device supports subgroup operations. Undefined if it is known only after opening. */
  readonly subgroups?: boolean;
  /** Whether the device can measure the time of its kernels. Undefined if it is known only after opening. */
  readonly timestamps?: boolean;
  /** Whether `Device.new()` would choose the device. */
  readonly recommended: boolean;
  /** Why the device is not available, or not chosen by default. */
  readonly reason?: string;
}

/** The chosen core and adapter, and why they are not the expected ones. */
export interface Choice {
  core: CoreName;
  /** The adapter of the GPU to open. */
  adapter?: GPUAdapter;
  /** Whether the browser should choose the GPU with the lowest power consumption. */
  lowPower?: boolean;
  fallback?: string;
}

/** An adapter with its description. */
interface Offer extends Omit<Found, "recommended" | "available"> {
  adapter: GPUAdapter;
}

/** Firefox reveals only whether an adapter is a software GPU. */
const unnamed = "WebGPU adapter (the browser does not name it)";

/** Requests an adapter. Returns its description, or the reason why there is none. */
async function offer(powerPreference: GPUPowerPreference): Promise<Offer | string> {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) {
    return globalThis.isSecureContext === false
      ? "WebGPU is only available in a secure context: https, or localhost"
      : "WebGPU is not available: `navigator.gpu` is missing";
  }
  let found: GPUAdapter | null = null;
  try {
    // Browsers sometimes return null for the first request.
    for (let tries = 0; tries < 3 && !found; tries++) found = await gpu.requestAdapter({ powerPreference });
  } catch (error) {
    return `WebGPU refused an adapter: ${String(error)}`;
  }
  if (!found) return "WebGPU offers no adapter";
  // Early WebGPU browsers have no `info`, and lack other features, too.
  if (!found.info) return "WebGPU of this browser is too old: its adapters have no `info`";
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
    ...(software && { reason: "a software GPU, which must be selected explicitly" }),
  };
}

const cpu = { info: { backend: "cpu", name: "CPU", vendor: "", kind: "cpu", driver: "" } } as const;

/** Lists all devices, the recommended one first. If WebGPU offers none, it is listed last. */
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
  return [{ ...found, available, ...first }, { ...cpu, available, ...other, reason: `${found.info.name} is preferred` }];
}

/** Returns whether there is a GPU that is not a software GPU. */
export async function isAvailable(): Promise<boolean> {
  const gpu = await offer("high-performance");
  return typeof gpu !== "string" && gpu.info.kind !== "software";
}

const nothing = (prefer: unknown, why: string) => {
  const shown = typeof prefer === "string" ? `"${prefer}"` : prefer;
  return new WarpweftError("NoDevice", `device: the preference must match a device, got ${shown}: ${why}`);
};

/** Chooses the device for a preference. */
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

/** Chooses a device by its index in the result of `discover()`, or by a part of its name. */
function chooseFound(prefer: string | number, gpu: Offer | string): Choice {
  const found = list(gpu).filter(({ available }) => available);
  const matches = (part: string) => found.find(({ info }) => info.name.toLowerCase().includes(part.toLowerCase()));
  // An index may be a text, because preferences come from URLs and forms.
  const index = typeof prefer === "string" && /^\d+$/.test(prefer) ? Number(prefer) : prefer;
  const chosen = typeof index === "number" ? found[index] : matches(index);
  if (!chosen) throw nothing(prefer, `there is ${found.map(({ info }) => info.name).join(", ")}`);
  return typeof gpu === "string" || chosen.info.backend === "cpu" ? { core: "cpu" } : { core: "gpu", adapter: gpu.adapter };
}
