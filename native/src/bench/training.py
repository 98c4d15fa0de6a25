# Steps of training in PyTorch, for `warpweft bench --training`: `list KIND` prints the one peer that it has. `PyTorch KIND` is
# that peer: to `new MODEL` it answers by the number of parameters, to `step` by the seconds that it took and the loss.
import sys, time

if sys.argv[1] == "list":
    print("PyTorch")
    sys.exit()

import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def conv(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]


def make(name):
    kind, _, batch = name.partition("-")
    batch = int(batch)
    labels = torch.arange(batch) % 10
    if kind == "mlp":
        layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
        return nn.Sequential(*layers), torch.randn(batch, 784), labels
    if kind == "cnn":
        dense = [nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)]
        return nn.Sequential(*conv(1, 16), *conv(16, 32), *dense), torch.randn(batch, 1, 28, 28), labels
    if kind == "lstm":
        return Recurrent(), torch.randn(batch, 100, 64), labels
    blocks = [nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(256, 256), *blocks, nn.Linear(256, 256), nn.Flatten(0, 1))
    x = torch.arange(batch * 128).reshape(batch, 128) * 7 % 256
    return model, x, (x.flatten() + 1) % 256


for line in sys.stdin:
    word, _, name = line.strip().partition(" ")
    if word == "new":
        model, x, y = make(name)
        optimizer, loss_of = torch.optim.Adam(model.parameters(), 1e-4), nn.CrossEntropyLoss()
        print(sum(each.numel() for each in model.parameters()), flush=True)
    else:
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        loss = loss.item()
        print(time.perf_counter() - start, loss, flush=True)
