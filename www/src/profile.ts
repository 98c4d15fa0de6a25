// Profiling of work that may be asynchronous, and its display in the browser's Performance panel.

import { Shown } from "./objects.js";

/** An event in the Chrome trace event format. Times are in microseconds. */
interface TraceEvent {
  name: string;
  ph: string;
  cat: string;
  ts: number;
  dur: number;
  tid: number;
  args: Record<string, unknown>;
}

/** The most marks in the Performance panel. More would make the panel unreadable. */
const most = 10_000;

/** The track and the color of each kind of event in the panel. */
const looks: Record<string, { track: string; color: string }> = {
  kernel: { track: "kernels", color: "primary" },
  submission: { track: "submissions", color: "primary-light" },
  planning: { track: "host", color: "tertiary" },
  compiling: { track: "host", color: "tertiary-dark" },
  uploading: { track: "host", color: "secondary" },
  submitting: { track: "host", color: "tertiary-light" },
  waiting: { track: "waiting", color: "secondary-light" },
};

export class Profile extends Shown {
  declare readonly text: string;
  declare json: () => string;
  declare toChromeTrace: () => string;

  toJSON(): unknown {
    return JSON.parse(this.json());
  }

  override toString(): string {
    return this.text;
  }
}

/** The internal methods of a device for profiling. */
interface Profiled {
  readonly info: { backend: string };
  beginProfile(): Promise<void>;
  endProfile(): Promise<Profile>;
  stopProfile(): void;
}

/** Implements {@link Device.profile}. */
export async function profile<T>(device: Profiled, work: () => T | Promise<T>): Promise<{ value: T; profile: Profile }> {
  await device.beginProfile();
  const begun = performance.now();
  try {
    const value = await work();
    const made = await device.endProfile();
    mark(made, begun, device.info.backend);
    return { value, profile: made };
  } catch (error) {
    device.stopProfile();
    throw error;
  }
}

/** Puts the events on separate tracks, if Chromium's Performance panel is recording. Otherwise this has no effect. */
function mark(profile: Profile, begun: number, backend: string): void {
  // Other browsers have no custom tracks, and Node would keep the measures.
  if (!("chrome" in globalThis) || typeof performance.measure !== "function") return;
  const { traceEvents } = JSON.parse(profile.toChromeTrace()) as { traceEvents: TraceEvent[] };
  const spans = traceEvents.filter(({ ph }) => ph === "X").slice(0, most);
  for (const { name, cat, ts, dur, args } of spans) {
    const look = looks[cat];
    if (look === undefined) continue;
    const properties = Object.entries(args).map(([key, value]) => [key, String(value)]);
    const devtools = { dataType: "track-entry", trackGroup: `warpweft (${backend})`, ...look, properties };
    performance.measure(name, { start: begun + ts / 1e3, duration: dur / 1e3, detail: { devtools } });
  }
  for (const name of new Set(spans.map((span) => span.name))) performance.clearMeasures(name);
}
