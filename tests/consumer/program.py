"""A user's program, with mistakes that a type checker must find: the lines marked so."""

import jax
import numpy as np

import persistor
from persistor import CMRU, Architecture, Backbone, Experiment, MinGRU, Pooling, load, save, train

key = jax.random.key(0)
cell = CMRU(16, 4, epsilon=0.5, hold=2.0, key=key)
outputs, state = cell(np.zeros((10, 16), np.float32))
size: int = cell.state_size + cell.input_size
first = cell.initial_state((3,))
model = Backbone(2, 3, (cell,), width=16, pooling=Pooling.MEAN, key=key)
save(model, "model.safetensors")
back: Backbone = load("model.safetensors")
alone: CMRU = load("cell.safetensors", CMRU)
experiment = Experiment.of("parity", cell="cmru", epsilon=-1.0, steps=128)
result = train(experiment, runs="runs")
hybrid = Experiment.of("smnist", cell=(MinGRU, CMRU), blocks=2)
reading = Architecture(norm="first", gate="before")

CMRU("nonsense")  # wrong
CMRU(16, "4", key=key)  # wrong
CMRU(16, 4, hold="high", key=key)  # wrong
CMRU(16, 4, thresholds="wild", key=key)  # wrong
CMRU(16, 4, epsilom=1.0, key=key)  # wrong
MinGRU(16, 4, epsilon=1.0, key=key)  # wrong
Backbone(2, 3, cell, key=key)  # wrong
Backbone(2, 3, (cell,), pooling="mean", key=key)  # wrong
Architecture(norm="last")  # wrong
Experiment.of(3)  # wrong
Experiment.of("parity", steps="many")  # wrong
train("parity")  # wrong
save(3, "model.safetensors")  # wrong
cell.nonsense  # wrong
persistor.Nonsense  # wrong
wrong_kind: MinGRU = load("cell.safetensors", CMRU)  # wrong
cell.step(np.zeros(16))  # wrong
