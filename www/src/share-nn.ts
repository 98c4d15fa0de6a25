// The classes of layers, optimizers and the trainer, which the entries with layers share.

import { addFile } from "./entry.js";
import { shareClasses } from "./load.js";
import { makeAs, makeIn } from "./modules.js";
import { Generator, Layer, Optimizer, Schedule, Trainer, WeightAverage } from "./nn-classes.js";

addFile(new Error());

let isShared = false;

/** Shares the classes of layers, once. `glue` may be any core's, because all cores have the same static methods. */
export function shareNn(glue: object): void {
  if (isShared) return;
  isShared = true;
  shareClasses({ Generator, Layer, Optimizer, WeightAverage, Schedule, Trainer }, makeIn);
  makeAs(glue as Record<string, object>);
}
