"""Writes layers.txt next to this file: the results of PyTorch's layers in 64 bits, and gradients by inputs and parameters.

    pip install torch numpy && python tests/golden/layers.py

A line is a case, a name, a shape and elements. `p name` is a parameter or a buffer, `x0`, `x1` are inputs, and `y0`, `y1`
are results. `d name` is the gradient, by that input or parameter, of the sum of the results multiplied by `w0`, `w1`. A
buffer afterwards is `b name`.
"""

import pathlib

import numpy as np
import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(5)
rng = np.random.default_rng(5)
lines = []


def uniform(*shape):
    """Returns values that f32 represents exactly, with few digits."""
    return torch.tensor(np.round(rng.uniform(-1, 1, shape) * 64) / 64)


def write(case, name, value):
    value = value.detach().numpy().astype(np.float64)
    elements = " ".join(f"{v:.8g}" for v in value.ravel())
    lines.append(f"{case}|{name}|{','.join(map(str, value.shape))}|{elements}")


def case(name, module, inputs, run=None, training=True):
    module.train(training)
    with torch.no_grad():
        for key, value in list(module.named_parameters()) + list(module.named_buffers()):
            if value.dtype == torch.float64:
                value.copy_(uniform(*value.shape))
                if key.endswith("running_var"):
                    value.abs_().add_(0.5)
                write(name, f"p {key}", value)
    inputs = [x.requires_grad_() if x.dtype == torch.float64 else x for x in inputs]
    results = run(module, *inputs) if run else module(*inputs)
    results = results if isinstance(results, (tuple, list)) else [results]
    loss = 0
    for i, x in enumerate(inputs):
        write(name, f"x{i}", x)
    for i, y in enumerate(results):
        w = uniform(*y.shape)
        loss = loss + (y * w).sum()
        write(name, f"y{i}", y)
        write(name, f"w{i}", w)
    loss.backward()
    for i, x in enumerate(inputs):
        if x.grad is not None:
            write(name, f"d x{i}", x.grad)
    for key, value in module.named_parameters():
        write(name, f"d {key}", value.grad)
    if training:
        for key, value in module.named_buffers():
            if value.dtype == torch.float64:
                write(name, f"b {key}", value)


case("linear", nn.Linear(3, 4), [uniform(2, 5, 3)])
case("linear without bias", nn.Linear(3, 4, bias=False), [uniform(5, 3)])
case("embedding", nn.Embedding(6, 3), [torch.tensor([[0, 5, 2], [2, 2, 1]])])
case("conv1d", nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2), [uniform(2, 2, 7)])
case("conv2d", nn.Conv2d(2, 3, (3, 2), padding=1, dilation=2), [uniform(2, 2, 6, 5)])
case("conv3d", nn.Conv3d(1, 2, 2), [uniform(1, 1, 3, 3, 4)])
case("conv_transpose1d", nn.ConvTranspose1d(4, 2, 3, stride=2, groups=2), [uniform(2, 4, 4)])
case("conv_transpose2d", nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), [uniform(1, 2, 3, 4)])
case("conv_transpose3d", nn.ConvTranspose3d(2, 1, 2), [uniform(1, 2, 2, 2, 3)])
case("batch norm of rows", nn.BatchNorm1d(3), [uniform(6, 3)])
case("batch norm", nn.BatchNorm2d(3), [uniform(2, 3, 4, 2)])
case("batch norm, evaluation", nn.BatchNorm2d(3), [uniform(2, 3, 4, 2)], training=False)
case("layer norm", nn.LayerNorm((3, 4)), [uniform(2, 3, 4)])
case("rms norm", nn.RMSNorm(5), [uniform(3, 5)])
case("group norm", nn.GroupNorm(2, 4), [uniform(2, 4, 3, 2)])
case("instance norm", nn.InstanceNorm2d(3), [uniform(2, 3, 4, 2)])
case("instance norm, affine", nn.InstanceNorm2d(3, affine=True), [uniform(2, 3, 4, 2)])


def flat(module, *inputs):
    y, last = module(*inputs)
    return [y, *(last if isinstance(last, tuple) else [last])]


def with_state(module, x, h, c=None):
    return flat(module, x, h if c is None else (h, c))


for name, layer in [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)]:
    case(name, layer(3, 4, batch_first=True), [uniform(2, 5, 3)], flat)
    options = dict(num_layers=2, bidirectional=True, batch_first=True)
    states = [uniform(4, 2, 3) for _ in range(2 if name == "lstm" else 1)]
    case(f"{name} in layers, both ways", layer(2, 3, **options), [uniform(2, 4, 2), *states], with_state)
case("lstm without bias", nn.LSTM(3, 2, bias=False, batch_first=True), [uniform(1, 3, 3)], flat)

attend = lambda m, q, k, v: m(q, k, v, need_weights=False)[0]
case("attention", nn.MultiheadAttention(6, 2, batch_first=True), [uniform(2, 3, 6), uniform(2, 4, 6), uniform(2, 4, 6)], attend)
causal = lambda m, x: m(x, x, x, need_weights=False, is_causal=True, attn_mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]))[0]
case("attention, causal", nn.MultiheadAttention(6, 3, batch_first=True), [uniform(2, 4, 6)], causal)
options = dict(dim_feedforward=5, dropout=0.0, batch_first=True)
case("encoder layer", nn.TransformerEncoderLayer(6, 2, **options), [uniform(2, 3, 6)])
case("encoder layer, norm first", nn.TransformerEncoderLayer(6, 2, activation="gelu", norm_first=True, **options), [uniform(2, 3, 6)])
mask = nn.Transformer.generate_square_subsequent_mask(3)
decode = lambda m, x, memory: m(x, memory, tgt_mask=mask, tgt_is_causal=True)
case("decoder layer", nn.TransformerDecoderLayer(6, 2, **options), [uniform(2, 3, 6), uniform(2, 4, 6)], decode)

case("rnn, relu", nn.RNN(3, 4, nonlinearity="relu", batch_first=True), [uniform(2, 5, 3)], flat)
case("lstm, projected", nn.LSTM(3, 4, proj_size=2, batch_first=True), [uniform(2, 5, 3)], flat)
options = dict(num_layers=2, bidirectional=True, batch_first=True, proj_size=2)
states = [uniform(4, 2, 2), uniform(4, 2, 3)]
case("lstm, projected, in layers, both ways", nn.LSTM(2, 3, **options), [uniform(2, 4, 2), *states], with_state)
case("bilinear", nn.Bilinear(3, 4, 2), [uniform(2, 5, 3), uniform(2, 5, 4)])
case("bilinear without bias", nn.Bilinear(2, 3, 4, bias=False), [uniform(2), uniform(3)])

three = lambda: [uniform(2, 3, 6), uniform(2, 4, 6), uniform(2, 4, 6)]
more = dict(batch_first=True, add_bias_kv=True)
case("attention, bias_kv", nn.MultiheadAttention(6, 2, **more), three(), attend)
case("attention, zeros", nn.MultiheadAttention(6, 2, batch_first=True, add_zero_attn=True), three(), attend)
case("attention, bias_kv and zeros", nn.MultiheadAttention(6, 2, add_zero_attn=True, **more), three(), attend)
hides = torch.nn.Transformer.generate_square_subsequent_mask(4)
masked = lambda m, x: m(x, x, x, need_weights=False, attn_mask=hides)[0]
case("attention, bias_kv, causal", nn.MultiheadAttention(6, 3, add_zero_attn=True, **more), [uniform(2, 4, 6)], masked)

pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
