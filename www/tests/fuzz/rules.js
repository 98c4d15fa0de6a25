// The formulas of optimizers, element by element: the update of a value `w` with a gradient `g` and the state of the rule. The
// sources are their papers, and PyTorch where it differs, but not the library's code.
//
// The fuzz chooses numbers that make each rule smooth (a large `eps`). Otherwise, a step that divides a small gradient by its
// magnitude would turn a rounding error into a whole step.

import { Skip } from "./tape.js";

const { sqrt, abs, max, sign } = Math;

/** Returns Adam's two means after a gradient, and their bias corrections. */
function moments({ betas: [b1, b2] }, { m = 0, v = 0 }, g, step) {
  return { m: b1 * m + (1 - b1) * g, v: b2 * v + (1 - b2) * g * g, c1: 1 - b1 ** step, c2: 1 - b2 ** step };
}

/** For each rule, returns the new value and state of one element at the `step`-th step, where the first is 1. */
export const rules = {
  sgd({ lr, momentum = 0, dampening = 0, weightDecay = 0, nesterov = false }, w, g, { buffer = 0 }, step) {
    g += weightDecay * w;
    if (momentum === 0) return [w - lr * g, {}];
    buffer = momentum * buffer + (step === 1 ? 1 : 1 - dampening) * g;
    return [w - lr * (nesterov ? g + momentum * buffer : buffer), { buffer }];
  },

  adam(options, w, g, memory, step) {
    const { lr, eps, weightDecay = 0 } = options;
    const { m, v, c1, c2 } = moments(options, memory, g + weightDecay * w, step);
    return [w - (lr * (m / c1)) / (sqrt(v / c2) + eps), { m, v }];
  },

  adamW(options, w, g, memory, step) {
    const { lr, eps, weightDecay = 0.01 } = options;
    const { m, v, c1, c2 } = moments(options, memory, g, step);
    return [w - lr * weightDecay * w - (lr * (m / c1)) / (sqrt(v / c2) + eps), { m, v }];
  },

  nAdam(options, w, g, memory, step) {
    const { lr, eps, weightDecay = 0, momentumDecay = 4e-3 } = options;
    const { m, v, c2 } = moments(options, memory, g + weightDecay * w, step);
    const rate = (n) => options.betas[0] * (1 - 0.5 * 0.96 ** (n * momentumDecay));
    let product = 1;
    for (let n = 1; n <= step; n++) product *= rate(n);
    const next = rate(step + 1);
    const change = ((1 - rate(step)) * (g + weightDecay * w)) / (1 - product) + (next * m) / (1 - product * next);
    return [w - (lr * change) / (sqrt(v / c2) + eps), { m, v }];
  },

  rmsProp({ lr, alpha, eps, momentum = 0, weightDecay = 0 }, w, g, { square = 0, buffer = 0 }) {
    g += weightDecay * w;
    square = alpha * square + (1 - alpha) * g * g;
    const change = g / (sqrt(square) + eps);
    buffer = momentum * buffer + change;
    return [w - lr * (momentum > 0 ? buffer : change), { square, buffer }];
  },

  adagrad({ lr, lrDecay = 0, eps, initialAccumulatorValue = 0, weightDecay = 0 }, w, g, { sum }, step) {
    g += weightDecay * w;
    sum = (sum ?? initialAccumulatorValue) + g * g;
    return [w - ((lr / (1 + (step - 1) * lrDecay)) * g) / (sqrt(sum) + eps), { sum }];
  },

  adadelta({ lr, rho, eps, weightDecay = 0 }, w, g, { square = 0, changes = 0 }) {
    g += weightDecay * w;
    square = rho * square + (1 - rho) * g * g;
    const change = (sqrt(changes + eps) / sqrt(square + eps)) * g;
    changes = rho * changes + (1 - rho) * change * change;
    return [w - lr * change, { square, changes }];
  },

  adamax({ lr, betas: [b1, b2], eps, weightDecay = 0 }, w, g, { m = 0, u = 0 }, step) {
    g += weightDecay * w;
    m = b1 * m + (1 - b1) * g;
    u = max(b2 * u, abs(g) + eps);
    return [w - (lr / (1 - b1 ** step)) * (m / u), { m, u }];
  },

  lion({ lr, betas: [b1, b2], weightDecay = 0 }, w, g, { m = 0 }) {
    const direction = b1 * m + (1 - b1) * g;
    // Gradients by parameters that a loss does not depend on are exactly 0.
    if (direction !== 0 && abs(direction) < 1e-3) throw new Skip("lion next to the kink of its sign");
    return [w - lr * weightDecay * w - lr * sign(direction), { m: b2 * m + (1 - b2) * g }];
  },
};

/** Returns random numbers for each rule that are smooth, and within the ranges of the library. */
export const choices = {
  sgd: (random) => {
    const options = { lr: random.one([0.05, 0.1, 0.5]) };
    if (random.once(2)) options.momentum = random.one([0.5, 0.9]);
    if (options.momentum && random.once(3)) options.nesterov = true;
    else if (options.momentum && random.once(3)) options.dampening = 0.25;
    return options;
  },
  adam: (random) => ({ lr: random.one([0.02, 0.1]), betas: [0.8, 0.9], eps: 0.1 }),
  adamW: (random) => ({ lr: random.one([0.02, 0.1]), betas: [0.8, 0.9], eps: 0.1, weightDecay: 0.1 }),
  nAdam: () => ({ lr: 0.05, betas: [0.8, 0.9], eps: 0.1 }),
  rmsProp: (random) => ({ lr: 0.05, alpha: 0.9, eps: 0.1, momentum: random.one([0, 0.5]) }),
  adagrad: (random) => ({ lr: 0.1, eps: 0.1, initialAccumulatorValue: 0.1, lrDecay: random.one([0, 0.5]) }),
  adadelta: () => ({ lr: 1, rho: 0.9, eps: 0.01 }),
  adamax: () => ({ lr: 0.05, betas: [0.8, 0.9], eps: 0.1 }),
  lion: () => ({ lr: 0.05, betas: [0.8, 0.9] }),
};
