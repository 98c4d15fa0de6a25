"""Writes losses.txt next to this file: PyTorch's losses and their gradients, in 64 bits.

    pip install torch && python tests/golden/losses.py

A line is a case, a name, a shape and elements. A case's name is the loss and its options, `name key=value ...`. `loss` is
the value, `seed` the weights of its gradient, and `d x` the gradient by `x`. All other names are inputs.
"""

import itertools
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(23)
lines = []
REDUCTIONS = ["none", "mean", "sum"]


def uniform(*shape, low=-2.0, high=2.0):
    """Returns values that f32 represents exactly."""
    return (torch.rand(shape) * (high - low) + low).double()


def signs(*shape):
    return torch.where(torch.rand(shape) < 0.5, -1.0, 1.0).double()


def line(case, key, value):
    shape = ",".join(map(str, value.shape))
    elements = " ".join(f"{v:.9g}" for v in value.detach().double().reshape(-1).tolist())
    lines.append(f"{case}|{key}|{shape}|{elements}")


def case(name, f, inputs, by, options=None, tensors=None, label=""):
    """Writes the loss `f` of `inputs`, differentiated by those named in `by`. `tensors` are options that are tensors."""
    options, tensors = options or {}, tensors or {}
    title = " ".join([name, *(f"{key}={value}" for key, value in options.items()), *([label] if label else [])])
    inputs = {key: value.clone().requires_grad_(key in by) for key, value in inputs.items()}
    loss = f(*inputs.values(), **options, **tensors)
    seed = torch.ones_like(loss) if loss.dim() == 0 else uniform(*loss.shape)
    gradients = torch.autograd.grad(loss, [inputs[key] for key in by], seed)
    named = {**inputs, **tensors, "loss": loss, "seed": seed}
    named.update({f"d {key}": gradient for key, gradient in zip(by, gradients)})
    for key, value in named.items():
        line(title, key, value)


def each(name, f, inputs, by, choices, tensors=None, label="", reductions=REDUCTIONS):
    """Writes a case for each combination of options."""
    keys = [*choices, "reduction"]
    for values in itertools.product(*choices.values(), reductions):
        case(name, f, inputs, by, dict(zip(keys, values)), tensors, label)


# Losses of numbers. The last element equals the target.
x, t = uniform(3, 4), uniform(3, 4)
x[-1, -1] = t[-1, -1]
pair = {"x": x, "target": t}
each("mse_loss", F.mse_loss, pair, ["x", "target"], {})
each("l1_loss", F.l1_loss, pair, ["x", "target"], {})
each("smooth_l1_loss", F.smooth_l1_loss, pair, ["x", "target"], {"beta": [1.0, 0.5, 0.0]})
each("huber_loss", F.huber_loss, pair, ["x", "target"], {"delta": [1.0, 0.25]})
case("mse_loss", F.mse_loss, {"x": uniform(), "target": uniform()}, ["x", "target"], {"reduction": "mean"}, label="scalar")


def gaussian(x, target, variance, eps=1e-6, **options):
    return F.gaussian_nll_loss(x, target, variance, eps=eps, **options)


for label, variance in [("", uniform(3, 4, low=0.1)), ("column", uniform(3, 1, low=0.1)), ("row", uniform(3, low=0.1))]:
    each(
        "gaussian_nll_loss", gaussian, {**pair, "variance": variance}, ["x", "target", "variance"],
        {"full": [False, True]}, label=label, reductions=["none", "mean"],
    )
case(
    "gaussian_nll_loss", gaussian, {**pair, "variance": uniform(3, 4, low=0.0, high=1.0)}, ["x", "target", "variance"],
    {"eps": 0.5, "reduction": "none"},
)


def poisson(x, target, eps=1e-8, **options):
    return F.poisson_nll_loss(x, target, eps=eps, **options)


# PyTorch's gradient by a target of 0 is NaN.
counts = torch.tensor([[0.5, 1, 2, 5], [3, 1, 10, 0.25]]).double()
each(
    "poisson_nll_loss", poisson, {"x": uniform(2, 4, low=0.1), "target": counts}, ["x", "target"],
    {"log_input": [True, False], "full": [False, True]},
)
case("poisson_nll_loss", poisson, {"x": uniform(2, 4, low=0.1), "target": counts.round()}, ["x"],
     {"log_input": False, "full": True, "eps": 0.5, "reduction": "mean"})

# Losses of classes.
weight = uniform(4, low=0.1)
scores = {"x": uniform(5, 4, low=-4, high=4), "target": torch.tensor([0, 3, 2, 2, 1])}
deep = {"x": uniform(2, 4, 1, 2, low=-4, high=4), "target": torch.tensor([[[2, 0]], [[1, 3]]])}
for label, inputs in [("", scores), ("deep", deep)]:
    for of, tensors in [("", {}), ("weighted", {"weight": weight})]:
        title = f"{label} {of}".strip()
        choices = {"label_smoothing": [0.0, 0.1], "ignore_index": [-100, 2]}
        each("cross_entropy", F.cross_entropy, inputs, ["x"], choices, tensors, title)
        logarithms = {**inputs, "x": F.log_softmax(inputs["x"], 1).float().double()}
        each("nll_loss", F.nll_loss, logarithms, ["x"], {"ignore_index": [-100, 2]}, tensors, title)
        chances = {**inputs, "target": F.softmax(uniform(*inputs["x"].shape), 1).float().double()}
        each("cross_entropy", F.cross_entropy, chances, ["x", "target"], {"label_smoothing": [0.0, 0.1]}, tensors,
             f"{title} probabilities".strip())

edges = torch.tensor([[100.0, -100, 0], [-100, 100, 100], [-100, -100, -100]]).double()
for label, inputs in {
    "large": {"x": edges, "target": torch.tensor([1, 0, 2])},
    "large and right": {"x": edges, "target": torch.tensor([0, 1, 1])},
    "one class": {"x": uniform(3, 1), "target": torch.tensor([0, 0, 0])},
    "unbatched": {"x": uniform(4), "target": torch.tensor(2)},
}.items():
    each("cross_entropy", F.cross_entropy, inputs, ["x"], {"label_smoothing": [0.0, 0.25]}, label=label)
certain = {"x": edges, "target": torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 1]]).double()}
each("cross_entropy", F.cross_entropy, certain, ["x", "target"], {}, label="large probabilities")
ignored = {"x": uniform(3, 4), "target": torch.tensor([-100, -100, -100])}
each("cross_entropy", F.cross_entropy, ignored, ["x"], {"label_smoothing": [0.0, 0.25]}, label="all ignored")
each("cross_entropy", F.cross_entropy, ignored, ["x"], {}, {"weight": uniform(4, low=0.1)}, "all ignored weighted")
each("nll_loss", F.nll_loss, ignored, ["x"], {}, label="all ignored")

logarithms = F.log_softmax(uniform(3, 4), -1)
chances = F.softmax(uniform(3, 4), -1).float().double()
every = REDUCTIONS + ["batchmean"]
pair = {"x": logarithms.float().double(), "target": chances}
each("kl_div", F.kl_div, pair, ["x", "target"], {"log_target": [False]}, reductions=every)
pair = {"x": pair["x"], "target": chances.log().float().double()}
each("kl_div", F.kl_div, pair, ["x", "target"], {"log_target": [True]}, reductions=every)
pair = {"x": pair["x"], "target": torch.eye(3, 4).double()}
each("kl_div", F.kl_div, pair, ["x"], {"log_target": [False]}, label="certain", reductions=every)

# Losses of two classes. PyTorch's gradient by a target is infinite where x is 0 or 1.
weight, positive = uniform(4, low=0.1), uniform(4, low=0.1)
pair = {"x": uniform(3, 4, low=0.01, high=0.99), "target": uniform(3, 4, low=0.0, high=1.0)}
ends = {"x": torch.tensor([0.0, 0, 1, 1, 0, 1, 1e-7, 0.5]).double(), "target": torch.tensor([0.0, 1, 0, 1, 0.5, 0.5, 1, 1]).double()}
ends["x"] = ends["x"].float().double()
for of, tensors in [("", {}), ("weighted", {"weight": weight})]:
    each("binary_cross_entropy", F.binary_cross_entropy, pair, ["x", "target"], {}, tensors, of)
each("binary_cross_entropy", F.binary_cross_entropy, ends, ["x"], {}, label="ends")
pair["x"] = uniform(3, 4)
ends["x"] = torch.tensor([0.0, 100, -100, 100, -100, 30, -30, -100]).double()
for of, tensors in [
    ("", {}),
    ("weighted", {"weight": weight}),
    ("positive", {"pos_weight": positive}),
    ("weighted positive", {"weight": weight, "pos_weight": positive}),
]:
    f = F.binary_cross_entropy_with_logits
    each("binary_cross_entropy_with_logits", f, pair, ["x", "target"], {}, tensors, of)
each("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, ends, ["x", "target"], {}, label="large")
# Products of 100 overflow exp(..) in f32, but not in f64.
each("soft_margin_loss", F.soft_margin_loss, {"x": ends["x"], "target": signs(8)}, ["x"], {}, label="large")
each("soft_margin_loss", F.soft_margin_loss, {"x": uniform(3, 4), "target": signs(3, 4)}, ["x"], {})
margins = torch.tensor([0.5, 0.25, 3.0, 1.0, 1.0, 0.0]).double()
targets = torch.tensor([1.0, -1, -1, -1, 1, 0]).double()
each("hinge_embedding_loss", F.hinge_embedding_loss, {"x": margins, "target": targets}, ["x"], {"margin": [1.0, 0.3]})

# Losses of several inputs.
triple = {"x": uniform(3, 4), "other": uniform(3, 4), "target": signs(3, 4)}
triple["other"][0, 0] = triple["x"][0, 0]
each("margin_ranking_loss", F.margin_ranking_loss, triple, ["x", "other", "target"], {"margin": [0.0, 0.5]})
triple = {"x": uniform(6, 4), "other": uniform(6, 4), "target": torch.tensor([1.0, -1, 1, -1, -1, 0]).double()}
triple["other"][3] = triple["x"][3] * 2
each("cosine_embedding_loss", F.cosine_embedding_loss, triple, ["x", "other"], {"margin": [0.0, 0.5]})
vectors = {"x": uniform(4), "other": uniform(4), "target": torch.tensor(1.0).double()}
case("cosine_embedding_loss", F.cosine_embedding_loss, vectors, ["x", "other"], {"reduction": "mean"}, label="vectors")


def triplet(x, positive, negative, eps=1e-6, **options):
    return F.triplet_margin_loss(x, positive, negative, eps=eps, **options)


triple = {"x": uniform(3, 3), "positive": uniform(3, 3), "negative": uniform(3, 3)}
choices = {"margin": [1.0, 3.0], "p": [2.0, 1.0, 3.0], "swap": [False, True]}
each("triplet_margin_loss", triplet, triple, ["x", "positive", "negative"], choices, reductions=["none"])
choices = {"eps": [0.1]}
each("triplet_margin_loss", triplet, triple, ["x", "positive", "negative"], choices)

# Targets that broadcast, and results that are larger than the input.
for label, shapes in {"target row": [(3, 4), (4,)], "target column": [(3, 4), (3, 1)], "target larger": [(3, 1), (3, 4)]}.items():
    inputs = {"x": uniform(*shapes[0]), "target": uniform(*shapes[1]), "variance": uniform(*shapes[0], low=0.1)}
    each("gaussian_nll_loss", gaussian, inputs, ["x", "target", "variance"], {"full": [True]}, label=label)

assert all(math.isfinite(float(v)) or "all ignored" in text for text in lines for v in text.split("|")[3].split())
pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
