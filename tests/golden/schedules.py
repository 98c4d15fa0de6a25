"""Writes schedules.txt next to this file: the learning rates of PyTorch's schedulers.

    pip install torch && python tests/golden/schedules.py

A line is a case, a name, a shape and elements. A case's name is the schedule and its options, `name key=value ...`. `lr` has
the rates of the steps from 0 on. `metric` is the input of ReduceLrOnPlateau, and `lr` its rates after that.
"""

import math
import pathlib
import random

import torch
from torch.optim import lr_scheduler as schedulers

random.seed(23)
lines = []
STEPS = 60


def line(case, key, values):
    lines.append(f"{case}|{key}|{len(values)}|{' '.join(repr(float(v)) for v in values)}")


def optimizer(lr):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)


def rates(lr, make, steps=STEPS):
    sgd = optimizer(lr)
    schedule = make(sgd)
    found = [sgd.param_groups[0]["lr"]]
    while len(found) < steps:
        sgd.step()
        schedule.step()
        found.append(sgd.param_groups[0]["lr"])
    return found


def title(name, options):
    def text(value):
        return ",".join(map(str, value)) if isinstance(value, list) else str(value)

    return " ".join([name, *(f"{key}={text(value)}" for key, value in options.items())])


def case(name, scheduler, lr, steps=STEPS, names=None, **options):
    """Writes a case. `names` are PyTorch's names of options whose name here is in lower case."""
    given = {(names or {}).get(key, key): value for key, value in options.items()}
    line(title(name, {"lr": lr, **options}), "lr", rates(lr, lambda sgd: scheduler(sgd, **given), steps))


case("ConstantLr", schedulers.ConstantLR, 0.3, factor=0.25, total_iters=7)
case("LinearLr", schedulers.LinearLR, 0.3, start_factor=1 / 3, end_factor=1.0, total_iters=5)
case("LinearLr", schedulers.LinearLR, 0.3, start_factor=1.0, end_factor=0.01, total_iters=55)
case("StepLr", schedulers.StepLR, 0.5, step_size=7, gamma=0.3)
case("StepLr", schedulers.StepLR, 0.5, step_size=1, gamma=0.1)
case("MultiStepLr", schedulers.MultiStepLR, 0.5, milestones=[3, 30, 30, 41], gamma=0.2)
case("ExponentialLr", schedulers.ExponentialLR, 0.5, gamma=0.9)
case("PolynomialLr", schedulers.PolynomialLR, 0.5, total_iters=5, power=1.0)
case("PolynomialLr", schedulers.PolynomialLR, 0.5, total_iters=50, power=2.5)
names = {"t_max": "T_max", "t_0": "T_0", "t_mult": "T_mult"}
case("CosineAnnealingLr", schedulers.CosineAnnealingLR, 0.5, 160, names, t_max=50, eta_min=0.01)
case("CosineAnnealingLr", schedulers.CosineAnnealingLR, 0.5, 51, names, t_max=50, eta_min=0.0)
case("CosineAnnealingLr", schedulers.CosineAnnealingLR, 0.5, STEPS, names, t_max=1, eta_min=0.1)
restarts = schedulers.CosineAnnealingWarmRestarts
case("CosineAnnealingWarmRestarts", restarts, 0.5, STEPS, names, t_0=7, t_mult=1, eta_min=0.0)
case("CosineAnnealingWarmRestarts", restarts, 0.5, 200, names, t_0=5, t_mult=2, eta_min=0.01)
case("CosineAnnealingWarmRestarts", restarts, 0.5, 200, names, t_0=1, t_mult=3, eta_min=0.0)
for options in [
    {},
    {"anneal_strategy": "linear"},
    {"three_phase": True},
    {"three_phase": True, "anneal_strategy": "linear", "pct_start": 0.4, "div_factor": 10.0, "final_div_factor": 100.0},
    {"pct_start": 0.0},
    {"pct_start": 1.0},
    {"pct_start": 0.37},
]:
    # Without cycling the momentum.
    options = {"max_lr": 0.5, "total_steps": STEPS, **options}
    make = lambda sgd: schedulers.OneCycleLR(sgd, cycle_momentum=False, **options)
    line(title("OneCycleLr", options), "lr", rates(0.5, make, STEPS))


def warmed(sgd):
    warm_up = schedulers.LinearLR(sgd, start_factor=0.1, total_iters=10)
    decay = schedulers.CosineAnnealingLR(sgd, T_max=40, eta_min=0.01)
    step = schedulers.StepLR(sgd, step_size=4, gamma=0.5)
    return schedulers.SequentialLR(sgd, [warm_up, decay, step], milestones=[10, 50])


line("SequentialLr", "lr", rates(0.5, warmed, 80))

falling = [2.0 * 0.9**n + 0.3 * random.random() for n in range(40)] + [0.5 + 0.01 * (n % 3) for n in range(60)]
falling[20] = math.nan
creeping = [1.0 - 0.003 * n for n in range(100)]
for metrics, options in [
    (falling, {}),
    (falling, {"mode": "max", "patience": 4, "factor": 0.5}),
    (falling, {"patience": 2, "factor": 0.5, "cooldown": 5, "min_lr": 0.01}),
    (falling, {"patience": 0, "factor": 0.3, "threshold": 0.05, "threshold_mode": "abs"}),
    (creeping, {"patience": 3, "threshold": 0.01}),
    (creeping, {"patience": 3, "threshold": 0.01, "threshold_mode": "abs", "eps": 1e-4}),
    ([-v for v in creeping], {"patience": 3, "mode": "max", "threshold": 0.01, "threshold_mode": "abs"}),
    ([2 - v for v in creeping], {"patience": 3, "mode": "max", "threshold": 0.01}),
]:
    sgd = optimizer(0.5)
    schedule = schedulers.ReduceLROnPlateau(sgd, **options)
    found = []
    for metric in metrics:
        sgd.step()
        schedule.step(metric)
        found.append(sgd.param_groups[0]["lr"])
    name = title("ReduceLrOnPlateau", options) + f" n={len(lines)}"
    line(name, "metric", metrics)
    line(name, "lr", found)

pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
