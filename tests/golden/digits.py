"""Writes digits.txt next to this file: the accuracy of PyTorch's nets on handwritten digits after training.

    pip install torch && python tests/golden/digits.py

The digits are those of native/data, and every fifth one is for testing. Layers, initial values, batches, optimizer and
epochs are those of tests/native/train/digits.rs. A line is a net, the mean test accuracy over the seeds, the standard deviation
of one seed, and the number of seeds.
"""

import pathlib

import numpy as np
import torch
from torch import nn

here = pathlib.Path(__file__)
digits = np.load(here.parents[2] / "native" / "data" / "digits.npz")
x = torch.tensor(digits["images"], dtype=torch.float32)[:, None] / 16
y = torch.tensor(digits["labels"], dtype=torch.long)
held_out = torch.arange(len(y)) % 5 == 0
SEEDS, EPOCHS, BATCH, LR = 20, {"mlp": 20, "cnn": 10}, 32, 2e-3


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def accuracy(make, epochs, seed):
    torch.manual_seed(seed)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    train_x, train_y = x[~held_out], y[~held_out]
    for _ in range(epochs):
        order = torch.randperm(len(train_y))
        for batch in order.split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(train_x[batch]), train_y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        return (model(x[held_out]).argmax(1) == y[held_out]).double().mean().item()


torch.set_num_threads(1)
lines = []
for make in mlp, cnn:
    name = make.__name__
    got = [accuracy(make, EPOCHS[name], seed) for seed in range(SEEDS)]
    lines.append(f"{name}|{np.mean(got):.5f}|{np.std(got):.5f}|{SEEDS}")
    print(lines[-1])
here.with_suffix(".txt").write_text("\n".join(lines) + "\n")
