"""Which reading of the paper's silent points lets CMRU solve copy-first at epsilon 1?

A symbol (or a scalar) is shown at t = 0, then L - 1 empty steps follow, and the last step is decoded. At
epsilon 1 the cell is an integrator, and every sequence sees the same empty steps, so no scan is needed:

    h_T = drive(symbol, 0) + sum over t = 1 .. L-1 of drive(empty, t)

Training is exact, under the paper's protocol (AdamW, warm-up and cosine, clip, batch 64, evaluation every 64
steps, best checkpoint kept), at a few milliseconds a step on one core. A reading is a value of `Reading`;
`READINGS` names the ones worth comparing. Each finished run appends one JSON line; a run already in the file
is not computed again.

    python copy_first_readings.py --readings encoder_no_bias_base_100_gate_norm --lengths 100 300 1000 --seeds 0 1 2
    python copy_first_readings.py --readings norm_first --cell alpha_cmru --task continuous --lengths 1000
    python copy_first_readings.py --list

The 15 symbols are all the validation and test sets contain, so accuracy is exact from 15 rows, and the first
perfect evaluation already fixes the result of the best checkpoint. `--patience 100` stops as the paper does
(100 perfect evaluations in a row); `--patience 1` stops at the first one, with the same reported accuracy.
"""

import argparse
import dataclasses
import json
import math
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

SYMBOLS, BATCH, EVERY = 15, 64, 64


@dataclass(frozen=True)
class Reading:
    """Everything the paper leaves open; the defaults are the choices made so far."""

    pe_width: int = 256
    pe_base: float = 10_000.0
    pe_scale: float = 1.0  # positions are multiplied by this; 0 means 1 / length
    pe_mean_out: bool = False  # subtract the encoding's mean over the sequence
    pe_first: int = 0  # position of the first step
    norm: str = (
        "before_pe"  # before_pe | after_pe | both | none | backbone (PE joins the residual stream)
    )
    gate_input: str = "after_pe"  # what the output gate reads: after_pe | before_pe
    norm_eps: float = 1e-6
    norm_affine: bool = True
    readout_bias: bool = True
    readout_norm: str = "after"  # Norm(Linear(h)) or Linear(Norm(h)): after | before
    encoder_bias: bool = True
    linear_bias: bool = (
        True  # False: Linear is W x everywhere; only b_x, b_beta and b_alpha are left
    )
    init: str = "lecun"  # lecun | torch
    sign_slope: float = 2.0  # dsign/dx in units of dH/dx
    smooth_abs: bool = False  # differentiate |c| with the surrogate of sign instead of sign
    alpha_init: str = "ones"  # ones | tenth | normal
    threshold_bias: float = 0.0
    decay_all: bool = True  # weight decay on biases, scales and skips too


@dataclass(frozen=True)
class Run:
    reading: Reading
    name: str = "norm_first"
    cell: str = "cmru"  # cmru | alpha_cmru
    task: str = "discrete"  # discrete | continuous
    length: int = 100
    seed: int = 0
    steps: int = 100_000
    patience: int = 100
    m: int = 256
    d: int = 4


READINGS = {
    # one change at a time
    "norm_first": Reading(),
    "gate_norm": Reading(gate_input="before_pe"),
    "after_pe": Reading(norm="after_pe"),
    "backbone": Reading(norm="backbone"),
    "encoder_no_bias": Reading(encoder_bias=False),
    "no_bias": Reading(linear_bias=False),
    "pe_32": Reading(pe_width=32),
    "base_100": Reading(pe_base=100.0),
    "mean_out": Reading(pe_mean_out=True),
    "eps_1e-3": Reading(norm_eps=1e-3),
    "readout_norm_before": Reading(readout_norm="before"),
    "sign_once": Reading(sign_slope=1.0),
    "threshold_1": Reading(threshold_bias=1.0),
    "torch_init": Reading(init="torch"),
    "decay_weights": Reading(decay_all=False),
    # an encoder without biases keeps the empty input at exactly zero
    "no_bias_mean_out": Reading(linear_bias=False, pe_mean_out=True),
    "no_bias_pe_32": Reading(linear_bias=False, pe_width=32),
    "encoder_no_bias_mean_out": Reading(encoder_bias=False, pe_mean_out=True),
    "encoder_no_bias_base_30": Reading(encoder_bias=False, pe_base=30.0),
    "encoder_no_bias_base_100": Reading(encoder_bias=False, pe_base=100.0),
    # and the output gate reads x before PE
    "mean_out_gate_norm": Reading(pe_mean_out=True, gate_input="before_pe"),
    "base_100_gate_norm": Reading(pe_base=100.0, gate_input="before_pe"),
    "encoder_no_bias_mean_out_gate_norm": Reading(
        encoder_bias=False, pe_mean_out=True, gate_input="before_pe"
    ),
    "encoder_no_bias_base_30_gate_norm": Reading(
        encoder_bias=False, pe_base=30.0, gate_input="before_pe"
    ),
    "encoder_no_bias_base_100_gate_norm": Reading(
        encoder_bias=False, pe_base=100.0, gate_input="before_pe"
    ),
    "encoder_no_bias_base_100_mean_out_gate_norm": Reading(
        encoder_bias=False, pe_base=100.0, pe_mean_out=True, gate_input="before_pe"
    ),
    "no_bias_base_100_mean_out_gate_norm": Reading(
        linear_bias=False, pe_base=100.0, pe_mean_out=True, gate_input="before_pe"
    ),
}


# Surrogates: dH/dx = 1 / (1 + (pi x)^2), and sign = 2 H - 1 up to a free slope.


@jax.custom_jvp
def heaviside(x):
    return (x >= 0).astype(x.dtype)


@heaviside.defjvp
def _(primals, tangents):
    (x,), (dx,) = primals, tangents
    return heaviside(x), dx / (1 + (jnp.pi * x) ** 2)


def sign(x, slope):
    soft = slope * heaviside(x)
    return soft + jax.lax.stop_gradient(2 * heaviside(x) - 1 - soft)


def magnitude(x, r: Reading):
    return x * sign(x, 2.0) if r.smooth_abs else jnp.abs(x)


# Layers on plain dictionaries of arrays.


def linear_init(key, fan_in, fan_out, r: Reading, bias=True, affine=False):
    """Weights (and a bias, unless the reading has none; `affine` maps always have one)."""
    if r.init == "torch":
        bound = fan_in**-0.5
        wkey, bkey = jax.random.split(key)
        w = jax.random.uniform(wkey, (fan_in, fan_out), minval=-bound, maxval=bound)
        b = jax.random.uniform(bkey, (fan_out,), minval=-bound, maxval=bound)
    else:
        w = jax.nn.initializers.lecun_normal()(key, (fan_in, fan_out))
        b = jnp.zeros(fan_out)
    return {"w": w, "b": b} if affine or (bias and r.linear_bias) else {"w": w}


def linear(p, x):
    return x @ p["w"] + p["b"] if "b" in p else x @ p["w"]


def norm_init(width, r: Reading):
    return {"scale": jnp.ones(width), "bias": jnp.zeros(width)} if r.norm_affine else {}


def layer_norm(p, x, r: Reading):
    x = x - x.mean(-1, keepdims=True)
    x = x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + r.norm_eps)
    return x * p["scale"] + p["bias"] if p else x


def mlp_init(key, width, r: Reading, bias=True):
    up, down = jax.random.split(key)
    return {
        "up": linear_init(up, width, 4 * width, r, bias),
        "down": linear_init(down, 2 * width, width, r, bias),
    }


def mlp(p, x):
    return linear(p["down"], jax.nn.glu(linear(p["up"], x)))


def positions(run: Run):
    """Sinusoidal encoding of the run's positions, (length, pe_width)."""
    r = run.reading
    scale = r.pe_scale or 1.0 / run.length
    t = (np.arange(run.length) + r.pe_first)[:, None] * scale
    angle = t / r.pe_base ** (np.arange(0, r.pe_width, 2) / r.pe_width)
    pe = np.concatenate([np.sin(angle), np.cos(angle)], -1)
    return jnp.asarray(pe - pe.mean(0) if r.pe_mean_out else pe, jnp.float32)


# The model: encoder, one block, last pooling, decoder.


def task_widths(run: Run):
    return (SYMBOLS, SYMBOLS) if run.task == "discrete" else (1, 1)


def init(run: Run, key):
    r, m, d = run.reading, run.m, run.d
    width_in, width_out = task_widths(run)
    k = iter(jax.random.split(key, 12))
    params = {
        "encode": linear_init(next(k), width_in, m, r, r.encoder_bias),
        "encode_mlp": mlp_init(next(k), m, r, r.encoder_bias),
        "norm_in": norm_init(m, r),
        "norm_pe": norm_init(m, r),
        "mix": linear_init(next(k), m + r.pe_width, m, r),
        "candidate": linear_init(next(k), m, d, r, affine=True),
        "threshold": linear_init(next(k), m, d, r, affine=True),
        "readout": linear_init(next(k), d, m, r, r.readout_bias),
        "norm_out": norm_init(m if r.readout_norm == "after" else d, r),
        "gate": linear_init(next(k), m, m, r),
        "skip": jnp.ones(m),
        "norm_mlp": norm_init(m, r),
        "mlp": mlp_init(next(k), m, r),
        "mlp_skip": jnp.ones(m),
        "decode": linear_init(next(k), m, width_out, r),
        "decode_mlp": mlp_init(next(k), width_out, r),
    }
    params["threshold"]["b"] += r.threshold_bias
    if run.cell == "alpha_cmru":
        params["alpha"] = linear_init(next(k), m, d, r, affine=True)
    else:
        start = {
            "ones": jnp.ones(d),
            "tenth": jnp.full(d, 0.1),
            "normal": jax.random.normal(next(k), (d,)),
        }
        params["alpha"] = start[r.alpha_init]
    return params


def cell_input(p, u, pe, r: Reading):
    """Encoded inputs u and encodings pe -> Linear([x; PE]) and the same as the cell receives it."""
    x = u if r.norm in ("none", "after_pe", "backbone") else layer_norm(p["norm_in"], u, r)
    m = u.shape[-1]
    mixed = x @ p["mix"]["w"][:m] + pe @ p["mix"]["w"][m:] + p["mix"].get("b", 0.0)
    normed = (
        layer_norm(p["norm_pe"], mixed, r) if r.norm in ("after_pe", "both", "backbone") else mixed
    )
    return mixed, normed


def project(p, u, pe, run: Run):
    """Candidate, threshold and (alpha CMRU) scale for every step, (steps, k d)."""
    r, m = run.reading, run.m
    maps = [p["candidate"], p["threshold"]] + ([p["alpha"]] if run.cell == "alpha_cmru" else [])
    w, b = jnp.concatenate([q["w"] for q in maps], 1), jnp.concatenate([q["b"] for q in maps])
    if r.norm in ("before_pe", "none"):  # a linear map of a sum is a sum: never form (steps, m)
        x = u if r.norm == "none" else layer_norm(p["norm_in"], u, r)
        return (
            (x @ p["mix"]["w"][:m] + p["mix"].get("b", 0.0)) @ w + pe @ (p["mix"]["w"][m:] @ w) + b
        )
    return cell_input(p, u, pe, r)[1] @ w + b


def drive(p, u, pe, run: Run):
    """Drive of the integrator and signed update (-1, 0, 1) for every step."""
    parts = jnp.split(project(p, u, pe, run), 3 if run.cell == "alpha_cmru" else 2, -1)
    candidate, threshold = parts[0], jnp.abs(parts[1])
    alpha = parts[2] if run.cell == "alpha_cmru" else p["alpha"]
    z = heaviside(magnitude(candidate, run.reading) - threshold)
    update = z * sign(candidate, run.reading.sign_slope)
    return update * alpha, update


def forward(p, inputs, pe, run: Run):
    """First inputs (n, width) -> outputs (n, width) at the last step, and the updates on empty steps."""
    r = run.reading
    empty_and = jnp.concatenate([jnp.zeros_like(inputs[:1]), inputs])
    u = linear(p["encode"], empty_and)
    u = u + mlp(p["encode_mlp"], u)
    first, _ = drive(p, u[1:], pe[:1], run)
    empties, updates = drive(p, u[:1], pe[1:], run)
    h = first + empties.sum(0)

    mixed, normed = cell_input(p, u[:1], pe[-1:], r)
    if r.gate_input == "before_pe":
        normed = layer_norm(p["norm_in"], u[:1], r)
    if r.readout_norm == "after":
        read = layer_norm(p["norm_out"], linear(p["readout"], h), r)
    else:
        read = linear(p["readout"], layer_norm(p["norm_out"], h, r))
    stream = mixed if r.norm == "backbone" else u[:1]
    y = p["skip"] * stream + read * jax.nn.sigmoid(linear(p["gate"], normed))
    y = p["mlp_skip"] * y + mlp(p["mlp"], layer_norm(p["norm_mlp"], y, r))
    y = linear(p["decode"], y)
    return y + mlp(p["decode_mlp"], y), updates


# Training.


def optimiser(run: Run):
    warm = max(1, run.steps // 100)
    rate = optax.join_schedules(
        [
            optax.linear_schedule(0.0, 1e-3, warm),
            optax.cosine_decay_schedule(1e-3, run.steps - warm, 1e-2),
        ],
        [warm],
    )
    mask = None if run.reading.decay_all else lambda ps: jax.tree.map(lambda a: a.ndim > 1, ps)
    adamw = optax.adamw(rate, b1=0.9, b2=0.99, eps=1e-8, weight_decay=1e-4, mask=mask)
    return optax.chain(optax.clip_by_global_norm(1.0), adamw)


def discrete_loss(p, key, pe, run: Run):
    counts = jnp.bincount(jax.random.randint(key, (BATCH,), 0, SYMBOLS), length=SYMBOLS)
    logits, _ = forward(p, jnp.eye(SYMBOLS), pe, run)
    return -(counts * jnp.diag(jax.nn.log_softmax(logits))).sum() / BATCH


def continuous_loss(p, key, pe, run: Run):
    data = jax.random.uniform(jax.random.key(1_000 + run.seed), (10_000, 1), minval=-1, maxval=1)
    x = data[jax.random.randint(key, (BATCH,), 0, len(data))]
    return ((forward(p, x, pe, run)[0] - x) ** 2).mean()


@partial(jax.jit, static_argnames="run", donate_argnums=(0, 1))
def train_chunk(params, state, key, pe, run: Run):
    loss = discrete_loss if run.task == "discrete" else continuous_loss
    opt = optimiser(run)

    def step(carry, key):
        params, state = carry
        value, grads = jax.value_and_grad(loss)(params, key, pe, run)
        updates, state = opt.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), value

    (params, state), values = jax.lax.scan(step, (params, state), jax.random.split(key, EVERY))
    return params, state, values.mean()


@partial(jax.jit, static_argnames="run")
def evaluate(params, pe, run: Run):
    """Score (accuracy, or MAE on a fixed grid of fresh values) and the updates on empty steps."""
    if run.task == "discrete":
        out, updates = forward(params, jnp.eye(SYMBOLS), pe, run)
        score = (out.argmax(-1) == jnp.arange(SYMBOLS)).mean()
    else:
        x = jnp.linspace(-1, 1, 2_001)[:, None]
        out, updates = forward(params, x, pe, run)
        score = jnp.abs(out - x).mean()
    return score, updates.sum(0), jnp.abs(updates).mean(0)


def train(run: Run, budget=math.inf, log=print):
    """One run under the paper's protocol -> a record of what happened."""
    began = time.time()
    init_key, key = jax.random.split(jax.random.key(run.seed))
    pe, params = positions(run), init(run, init_key)
    state = optimiser(run).init(params)
    discrete = run.task == "discrete"
    best, first_perfect, streak, perfect, stopped = (
        (0.0 if discrete else math.inf),
        None,
        0,
        0,
        "schedule",
    )
    for done in range(EVERY, run.steps + 1, EVERY):
        params, state, loss = train_chunk(params, state, jax.random.fold_in(key, done), pe, run)
        score, counts, rate = evaluate(params, pe, run)
        score = float(score)
        best = max(best, score) if discrete else min(best, score)
        streak = streak + 1 if discrete and score == 1.0 else 0
        perfect += streak > 0
        if streak and first_perfect is None:
            first_perfect = done
        if done % (EVERY * 80) == 0:
            log(
                f"  {done:6d} loss {float(loss):.4f} score {score:.4f} best {best:.4f} N {counts.astype(int)} "
                f"z {np.round(rate, 3)} {time.time() - began:.0f}s",
                flush=True,
            )
        if streak >= run.patience:
            stopped = "patience"
            break
        if time.time() - began > budget:
            stopped = "budget"
            break
    return {
        "name": run.name, "cell": run.cell, "task": run.task, "length": run.length, "seed": run.seed,
        "best": best, "final": score, "first_perfect": first_perfect, "perfect_evaluations": perfect,
        "done": done, "steps": run.steps, "patience": run.patience, "stopped": stopped,
        "counts": [int(n) for n in counts], "update_fraction": [round(float(f), 4) for f in rate],
        "alpha": [round(float(a), 3) for a in params["alpha"]] if run.cell == "cmru" else None,
        "loss": float(loss), "seconds": round(time.time() - began, 1), "reading": dataclasses.asdict(run.reading),
    }  # fmt: skip


IDENTITY = ("name", "cell", "task", "length", "seed", "steps")


def finished(path: Path):
    if not path.exists():
        return set()
    records = map(json.loads, path.read_text().splitlines())
    return {
        tuple(record[field] for field in IDENTITY)
        for record in records
        if record["stopped"] != "budget"
    }


def main():
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument(
        "--readings", nargs="+", default=["norm_first"], choices=READINGS, metavar="NAME"
    )
    ask.add_argument("--lengths", nargs="+", type=int, default=[100, 300, 1000])
    ask.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    ask.add_argument("--cell", choices=["cmru", "alpha_cmru"], default="cmru")
    ask.add_argument("--task", choices=["discrete", "continuous"], default="discrete")
    ask.add_argument("--steps", type=int, default=100_000, help="length of the schedule")
    ask.add_argument(
        "--patience", type=int, default=100, help="perfect evaluations in a row before stopping"
    )
    ask.add_argument(
        "--budget", type=float, default=math.inf, help="seconds a run; stopped runs say so"
    )
    ask.add_argument("--out", type=Path, default=Path("results.jsonl"))
    ask.add_argument("--list", action="store_true", help="print the readings and leave")
    args = ask.parse_args()
    if args.list:
        for name, reading in READINGS.items():
            print(
                f"{name:28}", {k: v for k, v in vars(reading).items() if v != getattr(Reading(), k)}
            )
        return
    for name in args.readings:
        for length in args.lengths:
            for seed in args.seeds:
                run = Run(
                    READINGS[name],
                    name,
                    args.cell,
                    args.task,
                    length,
                    seed,
                    args.steps,
                    args.patience,
                )
                if tuple(getattr(run, field) for field in IDENTITY) in finished(args.out):
                    continue
                print(name, run.cell, run.task, length, "seed", seed, flush=True)
                record = train(run, args.budget)
                with args.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                shown = (
                    "best",
                    "final",
                    "first_perfect",
                    "done",
                    "stopped",
                    "counts",
                    "update_fraction",
                    "seconds",
                )
                print("  =>", {k: record[k] for k in shown}, flush=True)


if __name__ == "__main__":
    main()
