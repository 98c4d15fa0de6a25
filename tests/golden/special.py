"""Writes special.txt next to this file: SciPy's and NumPy's results in 64 bits for special functions and the step function.

    pip install scipy && python tests/golden/special.py

A line is a case, a name, a shape and elements. `y` is the value, and `d x` the derivative by `x`. All other names are
inputs.
"""

import pathlib

import numpy as np
from scipy import special

rng = np.random.default_rng(23)
lines = []


def case(name, f, slope, inputs):
    # Values that f32 represents exactly.
    inputs = {key: np.asarray(x, np.float32).astype(np.float64) for key, x in inputs.items()}
    named = {**inputs, "y": f(*inputs.values()), "d x": slope(*inputs.values())}
    for key, value in named.items():
        elements = " ".join(f"{v:.9g}" for v in value)
        lines.append(f"{name}|{key}|{value.size}|{elements}")


def trigamma(x):
    """Returns the trigamma function. SciPy's is for positive numbers: psi'(x) + psi'(1 - x) = (pi / sin(pi x))^2."""
    mirrored = (np.pi / np.sin(np.pi * x)) ** 2 - special.polygamma(1, 1 - np.minimum(x, 0))
    return np.where(x > 0, special.polygamma(1, np.abs(x)), mirrored)


# Next to the zeros of the logarithm, near the points where formulas switch, far out, and between the poles.
gamma = np.concatenate(
    [
        [1 - 1e-6, 1 + 1e-6, 0.99, 1.01, 1.99, 2.01, 2 - 1e-6, 2 + 1e-6, 0.5999, 0.6001, 2.999, 3.001, 1.4616321],
        np.geomspace(1e-6, 1e6, 25),
        rng.uniform(0, 5, 30),
        rng.uniform(-30, 0, 30),
        -np.geomspace(1e-5, 0.9, 12),
        [-0.5, -1.5, -2.4570248, -2.7476826, -3.9552943, -4.001, -10.999, -100.25],
    ]
)
case("lgamma", special.gammaln, special.digamma, {"x": gamma})
case("digamma", special.digamma, trigamma, {"x": gamma})
inner = np.concatenate([rng.uniform(-1, 1, 40), np.geomspace(1e-8, 0.5, 12), 1 - np.geomspace(1e-3, 0.5, 12), [0.0, -0.9966]])
case(
    "erfinv", special.erfinv, lambda x: np.sqrt(np.pi) / 2 * np.exp(special.erfinv(x) ** 2), {"x": inner}
)
steps = {"x": [-2, -1e-30, -0.0, 0, 0, 1e-30, 3, -np.inf, np.inf, np.nan], "values": [1, 2, 3, 4, -5, 6, 7, 8, 9, 1]}
case("heaviside", lambda x, values: np.heaviside(x, values), lambda x, values: np.zeros_like(x), steps)
pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
