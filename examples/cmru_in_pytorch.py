"""CMRU in PyTorch: keep the sign of the first number while 100 others pass by."""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn
from torch.nn import functional

from persistor.torch import CMRU


class Keeper(nn.Module):
    def __init__(self, width=16, units=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(2, width), nn.Tanh())
        self.cell = CMRU(width, units, epsilon=0.0, hold=2.0)  # retains until it has learned
        self.decode = nn.Linear(units, 1)

    def forward(self, xs):  # (b, t, 2) -> (b,), and the states (b, t, d)
        states, _ = self.cell(self.encode(xs))
        return self.decode(states[:, -1])[:, 0], states


def draw(sequences, steps):
    """Numbers, of which the first is marked, and whether that one was positive."""
    xs = torch.zeros(sequences, steps, 2)
    xs[..., 0].normal_()
    xs[:, 0, 1] = 1.0
    return xs, (xs[:, 0, 0] > 0).float()


def main(folder, steps=300):
    torch.manual_seed(0)
    model = Keeper()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        xs, up = draw(64, 100)
        answers, _ = model(xs)
        loss = functional.binary_cross_entropy_with_logits(answers, up)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    with torch.no_grad():
        for length in (100, 1_000, 10_000):
            xs, up = draw(64, length)
            right = ((model(xs)[0] > 0) == (up > 0)).float().mean()
            print(f"{length:6,} steps: {right:.1%} right")
        xs, _ = draw(1, 100)
        _, states = model(xs)

    figure = Figure(figsize=(7, 4), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1)
    top.plot(losses)
    top.set(ylabel="loss", xlabel="step of training")
    middle.plot(xs[0, :, 0], color="0.5")
    middle.set(ylabel="input", xticklabels=[])
    bottom.step(range(100), states[0], where="post", linewidth=1)
    bottom.set(ylabel="states", xlabel="step of the sequence")
    figure.savefig(folder / "cmru_in_pytorch.svg")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
