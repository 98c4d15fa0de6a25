"""Writes grad.txt next to this file: JAX's values and gradients in 64 bits.

    pip install jax && python tests/golden/grad.py

A line is a case, a name, a shape and elements. `loss` is the value, and `d x` the gradient by `x`. All other names are
inputs.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(20)
lines = []


def uniform(*shape):
    """Returns values that f32 represents exactly."""
    return rng.uniform(-1, 1, shape).astype(np.float32).astype(np.float64)


def case(name, f, inputs, constants=None):
    loss, gradients = jax.value_and_grad(f)(inputs, **(constants or {}))
    named = {**inputs, **(constants or {}), "loss": loss, **{"d " + k: v for k, v in gradients.items()}}
    for key, value in named.items():
        value = np.asarray(value)
        shape = ",".join(map(str, value.shape))
        elements = " ".join(f"{v:.9g}" for v in value.astype(np.float64).ravel())
        lines.append(f"{name}|{key}|{shape}|{elements}")


def mlp(p, label):
    hidden = jax.nn.gelu(p["x"] @ p["w1"] + p["b1"], approximate=False)
    scores = jax.nn.log_softmax(jnp.tanh(hidden) @ p["w2"] + p["b2"])
    return -jnp.mean(jnp.take_along_axis(scores, label[:, None], 1))


case(
    "mlp",
    mlp,
    {"x": uniform(6, 5), "w1": uniform(5, 7), "b1": uniform(7), "w2": uniform(7, 4), "b2": uniform(4)},
    {"label": np.array([0, 3, 1, 1, 2, 0])},
)


def conv(p, stride, padding, dilation, groups):
    y = jax.lax.conv_general_dilated(
        p["x"], p["w"], stride, padding, rhs_dilation=dilation, feature_group_count=groups
    )
    return jnp.sum(jnp.sin(y))


for name, x, w, *rest in [
    ("conv", (2, 3, 6, 5), (4, 3, 3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ("conv stride", (1, 2, 9, 8), (3, 2, 3, 2), (2, 3), ((1, 1), (0, 2)), (1, 1), 1),
    ("conv groups", (2, 4, 5, 5), (6, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    ("conv dilation", (1, 4, 9, 9), (2, 2, 3, 2), (2, 1), ((2, 1), (0, 3)), (2, 3), 2),
]:
    case(name, lambda p, rest=rest: conv(p, *rest), {"x": uniform(*x), "w": uniform(*w)})


def layer_norm(p):
    x = p["x"]
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
    return jnp.sum(jnp.exp((x - mean) / jnp.sqrt(variance + 1e-5) * p["weight"] + p["bias"]))


case("layer norm", layer_norm, {"x": uniform(4, 9), "weight": uniform(9), "bias": uniform(9)})
case(
    "softmax",
    lambda p: jnp.sum(jax.nn.softmax(5 * p["x"], -1) * p["weight"]),
    {"x": uniform(3, 17), "weight": uniform(3, 17)},
)


def attention(p):
    q, k, v = p["q"], jnp.repeat(p["k"], 2, 1), jnp.repeat(p["v"], 2, 1)
    scores = q @ jnp.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    queries, keys = scores.shape[-2:]
    seen = np.arange(keys)[None, :] <= np.arange(queries)[:, None] + keys - queries
    scores = jnp.where(seen, scores, -jnp.inf)
    return jnp.sum(jnp.cos(jax.nn.softmax(scores, -1) @ v))


case(
    "attention",
    attention,
    {"q": uniform(2, 4, 5, 3), "k": uniform(2, 2, 7, 3), "v": uniform(2, 2, 7, 6)},
)
case(
    "embedding",
    lambda p, index: jnp.sum(jnp.exp(p["table"][index])),
    {"table": uniform(6, 4)},
    {"index": np.array([[5, 0, 2], [2, 2, 5]])},
)
ties = {"x": np.array([[1.0, 3.0, 3.0, -2.0], [0.5, 0.5, 0.5, 0.5], [4.0, -1.0, 0.0, 2.0]])}
case("max", lambda p: jnp.sum(jnp.exp(jnp.max(p["x"], 1))), ties)
case("min", lambda p: jnp.sum(jnp.exp(jnp.min(p["x"], 1))), ties)
case("maximum", lambda p: jnp.sum(jnp.maximum(p["x"], jnp.flip(p["x"], 1)) ** 2), ties)
zeros = {"x": np.array([[2.0, 0.0, -3.0, 0.5], [0.0, 1.0, 0.0, 4.0], [1.5, -2.0, 3.0, 0.25]])}
case("prod", lambda p: jnp.sum(jnp.sin(jnp.prod(p["x"], 1))), zeros)

pathlib.Path(__file__).with_name("grad.txt").write_text("\n".join(lines) + "\n")
