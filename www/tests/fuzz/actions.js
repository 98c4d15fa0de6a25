// All actions of a program of the fuzz. An action is plain data, such as `{ do: "minimize", optimizer: "o1", loss: "t4" }`, so
// programs can be stored, shrunk and printed. For each kind of action, a table has
//
// - `make`: returns a random action for the current world, or undefined if there are no operands;
// - `write` and `result`: the action in JavaScript, statements and an expression to compare. This text is run and printed;
// - `run`: the meaning in the reference. It returns the value to compare, or throws `Refused` if the library must reject the
//   action;
// - `weight`: the frequency; `isSync`: whether the action can occur in a scope.

import { calls } from "./actions/calls.js";
import { models } from "./actions/models.js";
import { optimizers } from "./actions/optimizers.js";
import { programs } from "./actions/programs.js";
import { tensors } from "./actions/tensors.js";
import { trainers } from "./actions/trainers.js";
import { variables } from "./actions/variables.js";

export const actions = { ...tensors, ...variables, ...models, ...optimizers, ...programs, ...trainers, ...calls };

/** Returns an action in JavaScript: statements, and an expression for its result. */
export function sourceOf(action, world) {
  const { write, result } = actions[action.do];
  return [write?.call(actions[action.do], action, world) ?? "", result?.call(actions[action.do], action, world)];
}
