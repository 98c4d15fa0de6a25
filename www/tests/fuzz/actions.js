// Everything that a program of the fuzz can do. An action is plain data: `{ do: "minimize", optimizer: "o1", loss: "t4" }`. So
// programs can be kept, made smaller and printed. For each kind of action a table says
//
// - `make`: one at random, of what the world has by then; undefined where there is nothing to make it of;
// - `write` and `result`: what it is in JavaScript, statements and an expression to compare. This text is run, and printed;
// - `run`: what it means, in the reference. It gives what is to be compared, or throws `Refused` where the library must refuse;
// - `weight`: how often it is made; `isSync`: whether it can stand in a scope.

import { calls } from "./actions/calls.js";
import { models } from "./actions/models.js";
import { optimizers } from "./actions/optimizers.js";
import { programs } from "./actions/programs.js";
import { tensors } from "./actions/tensors.js";
import { trainers } from "./actions/trainers.js";
import { variables } from "./actions/variables.js";

export const actions = { ...tensors, ...variables, ...models, ...optimizers, ...programs, ...trainers, ...calls };

/** An action in JavaScript: statements, and what it gives. */
export function sourceOf(action, world) {
  const { write, result } = actions[action.do];
  return [write?.call(actions[action.do], action, world) ?? "", result?.call(actions[action.do], action, world)];
}
