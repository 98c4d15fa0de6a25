// The garbage collector, which a program of the fuzz runs. Node must be started with a flag that exposes it.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
globalThis.gc ??= runInNewContext("gc");
