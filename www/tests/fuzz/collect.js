// The garbage collector, which a program of the fuzz asks: Node has to be told to show it.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
globalThis.gc ??= runInNewContext("gc");
