"""The cells once more, from the paper's equations: NumPy, float64, one step after the other.

Nothing here is shared with the package. A cell's parameters are read off by name.
"""

import numpy as np


def bmru(cell, x, h):
    """Eqs. bmru_candidate to bmru_update."""
    candidate, threshold = _projections(cell, x, 2)
    z = np.where(np.abs(candidate) - np.abs(threshold) >= 0, 1.0, 0.0)
    return z * _sign(candidate) * _float(cell.scale) + (1 - z) * h


def cmru(cell, x, h):
    """Eq. cmru."""
    candidate, threshold = _projections(cell, x, 2)
    return _cumulative(candidate, threshold, _float(cell.scale), _float(cell.epsilon), h)


def alpha_cmru(cell, x, h):
    """Eq. alpha_cmru."""
    candidate, threshold, scale = _projections(cell, x, 3)
    return _cumulative(candidate, threshold, scale, _float(cell.epsilon), h)


def positive_cmru(cell, x, h):
    """The CMRU with W_beta = 0 whose state is k = 2 h - alpha."""
    (candidate,) = _projections(cell, x, 1)
    scale = _float(cell.scale)
    k = 2 * h - scale
    return (
        _cumulative(candidate, _float(cell.threshold), scale, _float(cell.epsilon), k) + scale
    ) / 2


def ladder(cell, x, level):
    """A level up or down at each update, and no further than the ends; the state is the level."""
    (candidate,) = _projections(cell, x, 1)
    updates = np.abs(candidate) >= np.abs(_float(cell.threshold))
    return np.where(updates, np.clip(level + _sign(candidate), 0, cell.levels), level)


def mingru(cell, x, h):
    """Appendix "Minimal Gated Recurrent Unit"."""
    gate, candidate = _projections(cell, x, 2)
    z = 1 / (1 + np.exp(-gate))
    return (1 - z) * h + z * candidate


def lru(cell, x, h):
    """Appendix "Linear Recurrent Unit"."""
    real, imaginary = _projections(cell, x, 2)
    eigenvalue = np.exp(-np.exp(_float(cell.nu)) + 1j * np.exp(_float(cell.theta)))
    gamma = np.sqrt(1 - np.abs(eigenvalue) ** 2)
    return eigenvalue * h + gamma * (real + 1j * imaginary)


STEPS = {
    "bmru": bmru,
    "cmru": cmru,
    "alpha-cmru": alpha_cmru,
    "positive-cmru": positive_cmru,
    "ladder": ladder,
    "mingru": mingru,
    "lru": lru,
}


def states(name, cell, xs, first):
    """All states of one sequence, (t, d)."""
    h = np.asarray(first, np.complex128 if name == "lru" else np.float64)
    out = []
    for x in np.asarray(xs, np.float64):
        h = STEPS[name](cell, x, h)
        out.append(h)
    return np.stack(out)


def outputs(name, cell, xs, first):
    """What the cell hands on, (t, d)."""
    hs = states(name, cell, xs, first)
    if name == "ladder":
        return hs * _float(cell.scale)
    if name != "lru":
        return hs
    mix = _float(cell.mix_real) + 1j * _float(cell.mix_imaginary)
    return (hs @ mix).real + np.asarray(xs, np.float64) @ _float(cell.skip.weight)


def _cumulative(candidate, threshold, scale, epsilon, h):
    z = np.where(np.abs(candidate) - np.abs(threshold) >= 0, 1.0, 0.0)
    return z * (_sign(candidate) * scale + epsilon * h) + (1 - z) * h


def _projections(cell, x, parts):
    p = x @ _float(cell.project.weight)
    if cell.project.bias is not None:
        p = p + _float(cell.project.bias)
    return np.split(p, parts)


def _sign(x):
    return np.where(x >= 0, 1.0, -1.0)


def _float(array):
    return np.asarray(array, np.float64)
