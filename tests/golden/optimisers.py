"""Writes optimisers.txt next to this file: twenty steps of PyTorch's optimizers in 64 bits, and of LAMB by its paper.

    pip install torch numpy && python tests/golden/optimisers.py

A line is a case, a name, a shape and elements. `a`, `b` are the initial parameters, and `g a 3` is the third gradient by
`a`. `a 1`, `a 20` are the values after 1 and 20 steps. The learning rate of step n is the rule's rate times `lr n`.
"""

import pathlib

import numpy as np
import torch
from torch import optim

rng = np.random.default_rng(9)
lines = []
STEPS = 20
START = {"a": np.round(rng.uniform(-1, 1, (3, 4)) * 64) / 64, "b": np.round(rng.uniform(-1, 1, (5,)) * 64) / 64}
GRADIENTS = [{k: np.round(rng.normal(0, 1, v.shape) * 256) / 256 for k, v in START.items()} for _ in range(STEPS)]
# Some gradients are 0 for a while, and some are large.
for n in range(6):
    GRADIENTS[n]["a"][0, 0] = 0
for n in range(STEPS):
    GRADIENTS[n]["a"][1, 1] *= 64


def write(case, name, value):
    value = np.asarray(value, dtype=np.float64)
    elements = " ".join(f"{v:.10g}" for v in value.ravel())
    lines.append(f"{case}|{name}|{','.join(map(str, value.shape))}|{elements}")


for key, value in START.items():
    write("all", key, value)
    for n in range(STEPS):
        write("all", f"g {key} {n + 1}", GRADIENTS[n][key])


def case(name, make, keys=("a", "b"), clip=None, falling=False):
    parameters = {key: torch.tensor(START[key], requires_grad=True) for key in keys}
    optimizer = make(list(parameters.values()))
    base = optimizer.param_groups[0]["lr"]
    for n in range(STEPS):
        for key, parameter in parameters.items():
            parameter.grad = torch.tensor(GRADIENTS[n][key])
        if clip:
            clip(list(parameters.values()))
        if falling:
            optimizer.param_groups[0]["lr"] = base * 0.9**n
        optimizer.step()
        for key, parameter in parameters.items():
            if n in (0, 6, STEPS - 1):
                write(name, f"{key} {n + 1}", parameter.detach().numpy())


class Lamb(optim.Optimizer):
    """LAMB (You and others 2020, algorithm 2), without clipping the norms of parameters."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state, (b1, b2) = self.state[p], group["betas"]
                t = state["t"] = state.get("t", 0) + 1
                m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * p.grad
                v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * p.grad**2
                u = m / (1 - b1**t) / ((v / (1 - b2**t)).sqrt() + group["eps"]) + group["weight_decay"] * p
                p -= group["lr"] * p.norm() / u.norm() * u


class Lion(optim.Optimizer):
    """Lion (Chen and others 2023, program 1)."""

    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state, (b1, b2) = self.state[p], group["betas"]
                m = state.get("m", torch.zeros_like(p))
                p -= group["lr"] * (torch.sign(b1 * m + (1 - b1) * p.grad) + group["weight_decay"] * p)
                state["m"] = b2 * m + (1 - b2) * p.grad


class AdaBelief(optim.Optimizer):
    """AdaBelief (Zhuang and others 2020, algorithm 2), with decoupled weight decay."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state, (b1, b2), eps = self.state[p], group["betas"], group["eps"]
                t = state["t"] = state.get("t", 0) + 1
                m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * p.grad
                s = state["s"] = b2 * state.get("s", 0) + (1 - b2) * (p.grad - m) ** 2 + eps
                p *= 1 - group["lr"] * group["weight_decay"]
                p -= group["lr"] * m / (1 - b1**t) / ((s / (1 - b2**t)).sqrt() + eps)


class Yogi(optim.Optimizer):
    """Yogi (Zaheer and others 2018, algorithm 2), with Adam's bias correction and `begin` as the initial value of the means."""

    def __init__(self, params, lr, betas, eps, begin, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, begin=begin, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state, (b1, b2), begin = self.state[p], group["betas"], torch.full_like(p, group["begin"])
                g = p.grad + group["weight_decay"] * p
                t = state["t"] = state.get("t", 0) + 1
                m = state["m"] = b1 * state.get("m", begin) + (1 - b1) * g
                v = state.get("v", begin)
                v = state["v"] = v - (1 - b2) * torch.sign(v - g**2) * g**2
                p -= group["lr"] * m / (1 - b1**t) / ((v / (1 - b2**t)).sqrt() + group["eps"])


class Muon(optim.Optimizer):
    """Muon like PyTorch's, but with the Newton-Schulz steps in 64 bits instead of bfloat16."""

    def __init__(self, params, lr, weight_decay, momentum, nesterov):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                buffer = self.state[p].setdefault("buffer", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                x = p.grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
                x = x.T if (tall := x.shape[0] > x.shape[1]) else x
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
                x = x.T if tall else x
                p *= 1 - group["lr"] * group["weight_decay"]
                p -= group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5 * x


case("sgd", lambda p: optim.SGD(p, lr=0.1))
case("sgd, weight decay", lambda p: optim.SGD(p, lr=0.1, weight_decay=0.2))
case("sgd, momentum", lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1))
case("sgd, nesterov", lambda p: optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True))
case("adam", lambda p: optim.Adam(p, lr=0.05))
case("adam, options", lambda p: optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1))
case("adam, amsgrad", lambda p: optim.Adam(p, lr=0.05, betas=(0.9, 0.8), amsgrad=True))
case("adam, falling rate", lambda p: optim.Adam(p, lr=0.05), falling=True)
case("adamw", lambda p: optim.AdamW(p, lr=0.05, weight_decay=0.3))
case("adamw, amsgrad", lambda p: optim.AdamW(p, lr=0.05, betas=(0.9, 0.8), amsgrad=True))
case("adamax", lambda p: optim.Adamax(p, lr=0.05, weight_decay=0.1))
case("nadam", lambda p: optim.NAdam(p, lr=0.05, weight_decay=0.1))
case("nadam, decoupled", lambda p: optim.NAdam(p, lr=0.05, weight_decay=0.1, momentum_decay=0.1, decoupled_weight_decay=True))
case("radam", lambda p: optim.RAdam(p, lr=0.05, weight_decay=0.1))
case("radam, decoupled", lambda p: optim.RAdam(p, lr=0.05, betas=(0.9, 0.9), weight_decay=0.1, decoupled_weight_decay=True))
case("rmsprop", lambda p: optim.RMSprop(p, lr=0.02, weight_decay=0.1))
case("rmsprop, options", lambda p: optim.RMSprop(p, lr=0.02, alpha=0.9, eps=1e-4, momentum=0.8, centered=True))
case("adagrad", lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5))
case("adadelta", lambda p: optim.Adadelta(p, lr=1.0, rho=0.8, eps=1e-4, weight_decay=0.1))
case("lion", lambda p: Lion(p, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1))
case("lamb", lambda p: Lamb(p, lr=0.02, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1))
case("muon", lambda p: Muon(p, lr=0.02, weight_decay=0.1, momentum=0.95, nesterov=True), keys=("a",))
case("muon, plain", lambda p: Muon(p, lr=0.02, weight_decay=0.0, momentum=0.9, nesterov=False), keys=("a",))
case("asgd", lambda p: optim.ASGD(p, lr=0.05, weight_decay=0.1))
case("asgd, options", lambda p: optim.ASGD(p, lr=0.05, lambd=0.3, alpha=0.5, t0=4))
case("rprop", lambda p: optim.Rprop(p, lr=0.05))
case("rprop, options", lambda p: optim.Rprop(p, lr=0.05, etas=(0.4, 1.5), step_sizes=(0.03, 0.1)))
case("adabelief", lambda p: AdaBelief(p, lr=0.02, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1))
case("yogi", lambda p: Yogi(p, lr=0.02, betas=(0.9, 0.99), eps=1e-3, begin=1e-6, weight_decay=0.1))
for name, make in {"asgd": lambda p: optim.ASGD(p, lr=0.05, lambd=0.3, alpha=0.5, t0=4)}.items():
    parameter = torch.tensor(START["a"], requires_grad=True)
    optimizer = make([parameter])
    for n in range(STEPS):
        parameter.grad = torch.tensor(GRADIENTS[n]["a"])
        optimizer.step()
    write(f"{name}, averages", "ax", optimizer.state[parameter]["ax"].detach().numpy())
case("clipped by norm", lambda p: optim.SGD(p, lr=0.1), clip=lambda p: torch.nn.utils.clip_grad_norm_(p, 2.0))
case("clipped by value", lambda p: optim.SGD(p, lr=0.1), clip=lambda p: torch.nn.utils.clip_grad_value_(p, 0.5))

pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
