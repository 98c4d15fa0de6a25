"""The losses of the trainings' first steps, in PyTorch and float64: `training.json`, which `reference.js` reads.

    python www/bench/training.py            writes it
    python www/bench/training.py --float    shows the same in float32, and how far that is off

Numbers are `dataOf`'s of `cases.js`, names and order of the parameters as well; Adam's are `adam`'s.
"""

import json
import sys
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from torch import nn

STEPS = 3


class Recurrent(nn.Sequential):
    def forward(self, x):
        return self[2](self[0](x)[0][:, -1])


def numbers(name):
    """Steele's and Vigna's splitmix of 32 bits: a function from a count to so many numbers of [-1, 1)."""
    state = 7
    for letter in name:
        state = (state * 31 + ord(letter)) & 0xFFFFFFFF
    drawn = 0

    def draw(count):
        nonlocal drawn
        steps = np.arange(drawn + 1, drawn + count + 1, dtype=np.uint64)
        drawn += count
        z = (state + steps * 0x9E3779B9).astype(np.uint32)
        z = (z ^ (z >> 16)) * np.uint32(0x21F0AAAD)
        z = (z ^ (z >> 15)) * np.uint32(0x735A2D97)
        return ((z ^ (z >> 15)) >> 8) / 2.0**23 - 1

    return draw


def dense(rows):
    model = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*model), [rows, 784], None, [rows], 10


def cnn():
    part = lambda inputs, outputs: [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    last = [nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*part(1, 16), *part(16, 32), *last), [64, 1, 28, 28], None, [64], 10


def lstm():
    model = Recurrent(nn.LSTM(64, 128, batch_first=True), nn.Identity(), nn.Linear(128, 10))
    return model, [32, 100, 64], None, [32], 10


def transformer():
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(256, 256), *layers, nn.Linear(256, 256), nn.Flatten(0, 1))
    return model, [8, 128], 256, [8 * 128], 256


# A model, the shapes of x and y, and how many classes each has, where its numbers are classes.
MODELS = {
    "train-mlp-64": lambda: dense(64),
    "train-mlp-512": lambda: dense(512),
    "train-cnn": cnn,
    "train-lstm": lstm,
    "train-transformer": transformer,
}


def bound(name, shapes):
    """Parameters lie within 1 / sqrt(numbers that go into one): PyTorch's own bound; of norms and embeddings within 1."""
    if "norm" in name or (name == "0.weight" and "1.norm1.weight" in shapes):
        return 1.0
    if "_l0" in name:
        return 1 / sqrt(128)
    weight = name.replace("bias", "weight")
    return 1 / sqrt(np.prod(shapes[weight][1:]))


def losses(name, dtype):
    model, x_shape, x_classes, y_shape, y_classes = MODELS[name]()
    draw = numbers(name)

    def values(shape, classes=None):
        drawn = draw(int(np.prod(shape))).reshape(shape)
        if classes:
            return torch.tensor(np.floor((drawn + 1) / 2 * classes).astype(np.int64))
        return torch.tensor(drawn.astype(np.float32)).to(dtype)

    x, y = values(x_shape, x_classes), values(y_shape, y_classes)
    model = model.to(dtype)
    shapes = {key: tuple(value.shape) for key, value in model.named_parameters()}
    # Numbers are rounded to float32 after they were scaled, as JavaScript's arrays do.
    scaled = {key: (draw(int(np.prod(shape))) * bound(key, shapes)).astype(np.float32) for key, shape in shapes.items()}
    model.load_state_dict({key: torch.tensor(value.reshape(shapes[key])).to(dtype) for key, value in scaled.items()})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    golden = {name: losses(name, torch.float64) for name in MODELS}
    if "--float" in sys.argv:
        for name, wanted in golden.items():
            print(name, wanted, [abs(a - b) / b for a, b in zip(losses(name, torch.float32), wanted)])
    else:
        Path(__file__).with_suffix(".json").write_text(json.dumps(golden, indent=2) + "\n")
