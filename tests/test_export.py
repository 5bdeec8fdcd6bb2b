"""A model in C computes what the model computes, on this machine and on emulated boards.

Rounding may decide a hard gate whose sums are nearly equal. So states are held to be equal up to
the first such tie of a sequence, and most steps must lie before one.
"""

import dataclasses
import itertools
import json
import os
import re
import subprocess
import tempfile
import wave
from functools import cache
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import persistor
from persistor import PersistorError
from persistor._tools.folders import MANIFEST, write_folder
from persistor.cells import CELLS, CMRU
from persistor.cli import main
from persistor.data.mfcc import HOP, SAMPLE_RATE, WINDOW, cosines, hann, mel_bands
from persistor.data.preparation import Preparation
from persistor.export import boards
from persistor.export.agreement import Examples, agreement
from persistor.export.cells import WRITERS
from persistor.export.compilers import STRICT, host_compilers, missing, run
from persistor.export.constants import decimal, identifier, string
from persistor.export.folder import write
from persistor.export.host import Host
from persistor.export.program import program
from persistor.export.report import INSTRUCTIONS, report, stack_bytes, state_bytes
from persistor.export.truth import TIES, truth
from persistor.export.vectors import (
    Vectors,
    inputs_like,
    invented,
    invented_sound,
    vectors_text,
)
from persistor.export.verification import verify
from persistor.model import ARCHITECTURES, PAPER, Architecture, Backbone, Pooling
from persistor.model.eight_bits import LARGEST, in_eight_bits, rounded
from persistor.training.provenance import command as command_of

WIDTH, UNITS, INPUTS, OUTPUTS = 16, 3, 5, 4
WEIGHTS = ("float", "int8")
TOOLS = (*boards.TOOLS, "arm-none-eabi-size")


def lacking(*tools):
    """What a test lacks here; where PERSISTOR_ARM is set it must run, and fails instead."""
    return "" if os.environ.get("PERSISTOR_ARM") else missing(*tools)


here = pytest.mark.skipif(bool(lacking("gcc")), reason=lacking("gcc"))
on_boards = pytest.mark.skipif(bool(lacking(*TOOLS)), reason=lacking(*TOOLS))
strict = pytest.mark.skipif(bool(lacking("gcc", "clang")), reason=lacking("gcc", "clang"))


def make(cells, *, pooling="last", architecture=PAPER, seed=0, preparation=None, **options):
    """A small model whose parameters are all random, with hard gates that sometimes close."""
    keys = jax.random.split(jax.random.key(seed), len(cells) + 2)
    made = tuple(
        CELLS[name](WIDTH, UNITS, key=k, **options.get(name, {}))
        for name, k in zip(cells, keys[2:], strict=True)
    )
    inputs = 13 if preparation is not None else INPUTS
    model = Backbone(
        inputs,
        OUTPUTS,
        made,
        width=WIDTH,
        architecture=architecture,
        pooling=Pooling(pooling),
        preparation=preparation,
        key=keys[0],
    )
    leaves, tree = jax.tree.flatten(model)
    noise = jax.random.split(keys[1], len(leaves))
    moved = [
        leaf + 0.2 * jax.random.normal(k, leaf.shape) if eqx.is_array(leaf) else leaf
        for leaf, k in zip(leaves, noise, strict=True)
    ]
    return jax.tree.unflatten(tree, moved)


def written(made, folder):
    """The sources of a program in a folder."""
    (folder / f"{made.name}.h").write_text(made.header)
    (folder / f"{made.name}.c").write_text(made.source)
    return folder


def compiled(model, folder, weights="float", **options):
    made = program(model, "model", weights=weights, **options)
    return Host(made, written(made, folder), folder, host_compilers()[0])


def random_examples(model, number=6, steps=30):
    return Examples("random", list(inputs_like(model, number, steps, seed=3)))


def check_agreement(model, folder, weights="float"):
    found = agreement(compiled(model, folder, weights), random_examples(model))
    assert found.holds, found
    assert found.steps >= (0.8 if weights == "float" else 0.3) * 6 * 30, found
    return found


WRITTEN = [name for name, kind in CELLS.items() if kind in WRITERS]
CASES = list(itertools.product(WRITTEN, WEIGHTS, Pooling))


def test_the_registry_is_not_empty():
    assert len(CASES) >= 7 * 2 * 3


@here
@pytest.mark.parametrize(("cell", "weights", "pooling"), CASES)
def test_c_equals_the_model(cell, weights, pooling, tmp_path):
    check_agreement(make([cell], pooling=pooling), tmp_path, weights)


@here
@pytest.mark.parametrize("weights", WEIGHTS)
def test_hybrids_of_every_cell(weights, tmp_path):
    model = make(WRITTEN, architecture=Architecture(encoding=6))
    assert len(model.blocks) == len(WRITTEN)
    found = agreement(compiled(model, tmp_path, weights), random_examples(model))
    assert found.holds, found
    assert found.steps > 6


POINTS = [
    *ARCHITECTURES.values(),
    Architecture(encoding=0),
    Architecture(encoder_norm=True, decoder_norm=True, mlp_gate="silu"),
    Architecture(encoder_bias=False, hidden=2, decoder_hidden="model"),
    Architecture(norm="first", empty="zero", encoding=4, norm_epsilon=0.1, loudness=1.0),
    Architecture(linear="uniform", readout_bias=1.0, base=50.0),
]


@here
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("architecture", POINTS, ids=lambda a: a.name)
def test_every_point_of_the_architecture(architecture, weights, tmp_path):
    pooling = "mean" if architecture.decoder_norm else "last"
    check_agreement(make(["cmru"], architecture=architecture, pooling=pooling), tmp_path, weights)
    points = {field.name for field in dataclasses.fields(Architecture)}
    training = {"position_scale", "places", "gate_rate", "gate_sleep", "starts", "linear"}
    changed = {name for point in POINTS for name in point.to_json()} & points
    assert points - training <= changed | {"norm", "gate"}


EPSILONS = {
    "cmru": [0.0, 1.0, -1.0, 0.5, (1.0, -1.0, 0.0)],
    "positive-cmru": [0.0, -1.0, (0.25, -1.0, 1.0), (1.0, -1.0, 0.0)],
    "alpha-cmru": [(0.25, -1.0, 1.0)],
}


@here
@pytest.mark.parametrize(
    ("cell", "epsilon"), [(cell, e) for cell in EPSILONS for e in EPSILONS[cell]], ids=str
)
def test_epsilon_decides_what_a_state_is(cell, epsilon, tmp_path):
    model = make([cell], **{cell: {"epsilon": epsilon}})
    check_agreement(model, tmp_path)
    whole = cell != "alpha-cmru" and set(np.ravel(epsilon)) <= {-1.0, 0.0, 1.0}
    kept = "int8_t" if epsilon == 0.0 else "int32_t"
    header = (tmp_path / "model.h").read_text()
    assert f"{kept if whole else 'float'} block0[{UNITS}];" in header


@here
@pytest.mark.parametrize(("levels", "kind"), [(1, "int8_t"), (127, "int8_t"), (128, "int16_t")])
def test_ladders_keep_levels_and_stop_at_the_ends(levels, kind, tmp_path):
    model = make(["ladder"], ladder={"levels": levels})
    host = compiled(model, tmp_path)
    assert f"{kind} block0[{UNITS}];" in host.program.header
    up = eqx.tree_at(
        lambda m: (m.blocks[0].cell.project.weight, m.blocks[0].cell.project.bias),
        model,
        (jnp.zeros((WIDTH, UNITS)), jnp.full(UNITS, 9.0)),
    )
    (tmp_path / "up").mkdir()
    _, states = compiled(up, tmp_path / "up").answers(np.zeros((200, INPUTS), "f"))
    np.testing.assert_array_equal(states[:, 0], np.minimum(np.arange(1, 201), levels))


@here
def test_counts_stop_at_the_ends_of_their_integers(tmp_path):
    text = program(make(["cmru"]), "model").source
    count = re.search(r"static int32_t count.*?^}", text, re.M | re.S).group()
    lines = [
        "#include <stdint.h>\n#include <stdio.h>",
        count,
        "int main(void) {",
        '    printf("%d %d %d %d", count(INT32_MAX, 1), count(-INT32_MAX, -1),',
        "           count(INT32_MAX, -1), count(INT32_MAX - 1, 3)); }",
    ]
    (tmp_path / "count.c").write_text("\n".join(lines))
    run(["gcc", "-fsanitize=undefined", tmp_path / "count.c", "-o", tmp_path / "count"])
    top = 2**31 - 1
    assert run([tmp_path / "count"]).decode() == f"{top} {-top} {top - 1} {top}"


@here
@pytest.mark.parametrize("cell", ["bmru", "cmru", "ladder"])
def test_states_are_kept_for_ever(cell, tmp_path):
    model = make([cell], architecture=Architecture(encoding=0))
    bias = model.blocks[0].cell.project.bias
    quiet = eqx.tree_at(  # what the cell reads in silence never passes its threshold
        lambda m: m.blocks[0].norm,
        model,
        eqx.tree_at(lambda n: n.scale, model.blocks[0].norm, jnp.zeros(WIDTH)),
    )
    quiet = eqx.tree_at(
        lambda m: (m.blocks[0].norm.shift, m.blocks[0].cell.project.bias),
        quiet,
        (jnp.zeros(WIDTH), jnp.where(jnp.arange(bias.size) < UNITS, 0.0, 1.0)),
    )
    if cell == "ladder":
        quiet = eqx.tree_at(lambda m: m.blocks[0].cell.threshold, quiet, jnp.ones(UNITS))
    _, states = compiled(quiet, tmp_path).answers(np.zeros((10_000, INPUTS), "f"))
    assert not np.ptp(states, axis=0).any()


@here
def test_a_state_is_a_value_and_an_answer_changes_nothing(tmp_path):
    model = make(["cmru", "lru"], pooling="mean")
    host = compiled(model, tmp_path)
    one, other = inputs_like(model, 2, 20)
    first, _ = host.answers(one)  # the probe asks for an answer after every step
    host.answers(other)
    again, _ = host.answers(one)
    np.testing.assert_array_equal(first, again)
    whole, _ = model(jnp.asarray(one))
    np.testing.assert_allclose(first[-1], whole, rtol=1e-3, atol=1e-4)


@here
@pytest.mark.parametrize("weights", WEIGHTS)
def test_inputs_of_any_size_are_defined_behaviour(weights, tmp_path):
    made = program(make(["bmru", "ladder"]), "model", weights=weights)
    written(made, tmp_path)
    sizes = [0.0, 1e-38, 1e-20, 1.0, 1e20, 3e38, np.inf, np.nan]
    numbers = ", ".join({np.inf: "INFINITY"}.get(x, "NAN" if x != x else decimal(x)) for x in sizes)
    (tmp_path / "main.c").write_text(
        f'#include <math.h>\n#include "model.h"\nint main(void) {{ model_state s; model_init(&s);'
        f"const float sizes[] = {{{numbers}}}; float x[{INPUTS}], y[{OUTPUTS}];"
        f"for (int i = 0; i < {len(sizes)}; i++) {{ for (int j = 0; j < {INPUTS}; j++)"
        "x[j] = (j & 1 ? -1.0f : 1.0f) * sizes[i]; model_step(x, &s); model_answer(&s, y); }"
        "return 0; }"
    )
    run(
        [host_compilers()[0], "-std=c99", "-fsanitize=address,undefined", "-fno-sanitize-recover",
         tmp_path / "main.c", tmp_path / "model.c", "-o", tmp_path / "main", "-lm"]
    )  # fmt: skip
    run([tmp_path / "main"])


NO_VECTORS = Vectors([np.zeros((1, 13), "f")], np.zeros((1, OUTPUTS), "f"), 1.0, [])


@strict
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_no_compiler_warns(compiler, weights, tmp_path):
    cells = [*WRITTEN, "cmru", "positive-cmru"]
    for i, architecture in enumerate([PAPER, ARCHITECTURES["robust"], Architecture(encoding=0)]):
        options = {"cmru": {"epsilon": (1.0, -1.0, 0.0)}, "positive-cmru": {"epsilon": -1.0}}
        model = make(
            cells, architecture=architecture, pooling=list(Pooling)[i], preparation=EAR, **options
        )
        made = program(model, "model", weights=weights, features=True)
        texts = {"check.c": made.fill("check.c"), "words.c": made.fill("words.c")}
        texts["vectors.h"] = vectors_text(NO_VECTORS)
        for name, text in texts.items():
            (written(made, tmp_path) / name).write_text(text)
        for source in ("model.c", "check.c", "words.c"):
            run([compiler, *STRICT, "-O2", "-c", tmp_path / source, "-o", tmp_path / "out.o"])


def test_nothing_is_allocated_and_only_the_mathematical_library_is_included():
    made = program(make(WRITTEN, preparation=EAR), "model", features=True)
    included = re.findall(r"#include (.*)", made.header + made.source)
    assert set(included) == {'"model.h"', "<math.h>", "<stdint.h>"}
    assert not re.search(r"\b(malloc|calloc|free|static (?!const)\w+ \w+(\[|;| =))", made.source)


# Sounds.

EAR = Preparation(
    "sounds",
    classes=("yes", 'quo"te', "d\u00e9j\u00e0 NAME_X ??/", "no"),
    inputs=13,
    mean=tuple(np.linspace(-300, 10, 13)),
    deviation=tuple(np.linspace(100, 9, 13)),
    clip=0.25,
)


@cache
def listener(weights):
    """A model of sounds, compiled; its folder is kept for the length of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="persistor-ear-"))
    return compiled(make(["cmru"], pooling="mean", preparation=EAR), folder, weights, features=True)


@here
@pytest.mark.parametrize("seed", range(4))
def test_what_c_hears_is_what_the_model_hears(seed):
    host, samples = listener("float"), invented_sound(EAR, seed)
    samples = samples[: len(samples) * (4 - seed) // 4]  # shorter ones end in silence
    (expected,) = host.program.model.predict([samples.astype(np.float32) / 2**15])
    heard = jax.nn.softmax(jnp.asarray(host.heard(samples)))
    np.testing.assert_allclose(heard, expected.values, rtol=1e-3, atol=1e-4)


@here
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=5))
def test_buffers_of_any_size_are_the_same_sound(sizes):
    host, stream = listener("float"), long_sound()
    ends = np.cumsum([*sizes, len(stream) - sum(sizes)])
    parts = np.split(stream, [end for end in ends if 0 < end < len(stream)])
    np.testing.assert_array_equal(host.heard(*parts), host.heard(stream))


@here
@pytest.mark.parametrize("later", [0, 1, 159, 160, 3_999, 9_001])
def test_a_stream_is_a_clip_after_the_other(later):
    """A later clip begins with a frame; its first two frames hold what came before it."""
    host, clip = listener("float"), round(EAR.clip * SAMPLE_RATE)
    stream = long_sound()[: clip + later]
    first = -(-later // HOP)
    padded = np.pad(stream / np.float32(2**15), (0, clip))
    frames = 1 + clip // HOP
    coefficients = mfcc(padded[: len(stream)], first, frames)
    model = host.program.model
    wanted, _ = model(EAR._scaled(coefficients.astype(np.float16).astype(np.float32)))
    np.testing.assert_allclose(host.heard(stream), wanted, rtol=1e-3, atol=2e-3)


def long_sound():
    return np.concatenate([invented_sound(EAR, seed) for seed in range(1, 5)])


def mfcc(signal, first, frames):
    """MFCCs of some frames of a signal, with what lies before them."""
    padded = np.pad(signal, (WINDOW // 2, WINDOW // 2 + frames * HOP))
    cut = np.stack([padded[(first + i) * HOP :][:WINDOW] for i in range(frames)])
    power = np.abs(np.fft.rfft(cut * hann())) ** 2
    level = 10 * np.log10(np.maximum(power @ mel_bands(), 1e-10))
    return np.maximum(level, level.max() - 80) @ cosines()


@here
@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_program_that_prints_words(weights, tmp_path):
    host = listener(weights)
    made = host.program
    (written(made, tmp_path) / "words.c").write_text(made.fill("words.c"))
    built = tmp_path / "words"
    run(["gcc", "-std=c99", tmp_path / "words.c", tmp_path / "model.c", "-o", built, "-lm"])
    samples = invented_sound(EAR)
    lines = run([built], given=samples.astype("<i2").tobytes() + b"x").decode().splitlines()
    best = int(host.heard(samples).argmax())
    assert len(lines) == 1
    assert re.fullmatch(rf"0\.25 s  {re.escape(EAR.classes[best])} [01]\.\d{{3}}", lines[0])
    assert run([built], given=b"") == b""


# Boards.


@on_boards
@pytest.mark.parametrize("board", boards.BOARDS, ids=lambda b: b.title)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_boards_answer_as_this_machine_does(board, weights, tmp_path):
    model = make(["cmru", "mingru"], pooling="mean", preparation=EAR)
    host = compiled(model, tmp_path, weights, features=True)
    vectors = invented(model, weights, features=True)
    found = boards.measured(host.program, tmp_path, vectors, board, tmp_path / "board")
    here = np.stack([host.answers(x)[0][-1] for x in vectors.inputs])
    np.testing.assert_allclose(found.outputs, here, atol=vectors.tolerance)
    np.testing.assert_allclose(found.outputs, vectors.outputs, atol=vectors.tolerance)
    np.testing.assert_allclose(found.heard[0], host.heard(vectors.sounds[0]), atol=1e-2)
    numbers = report(host.program)
    about = numbers["instructions, about"][board.title]
    frames = 1 + round(EAR.clip * SAMPLE_RATE) // HOP
    for phase, counted in {
        "step": found.step,
        "answer": found.answer,
        "frame": found.hear / frames - found.step,
    }.items():
        assert 0.6 < about[phase] / counted < 1.7, (phase, counted)
    assert found.stack_hearing <= stack_bytes(host.program) + 600
    assert stack_bytes(host.program) <= found.stack_hearing
    assert numbers["bytes of constants"] < found.flash < numbers["bytes of constants"] + 12_000
    assert set(INSTRUCTIONS) == {b.title for b in boards.BOARDS}
    spent = {what for _, what in host.program.parts.cost} - {"multiplications", "norms"}
    assert spent == set(INSTRUCTIONS[board.title]) - set(WEIGHTS)  # all that takes long is counted


@here
@pytest.mark.parametrize("pooling", Pooling)
@pytest.mark.parametrize("cell", WRITTEN)
def test_the_report_knows_the_size_of_a_state(cell, pooling, tmp_path):
    architecture = ARCHITECTURES["robust"] if cell == "bmru" else PAPER
    host = compiled(make([cell], pooling=pooling, architecture=architecture), tmp_path)
    assert state_bytes(host.program.members) == host.state_bytes()


# Eight bits.


@given(st.integers(1, 6), st.integers(1, 6), st.floats(-30, 30), st.integers(0, 99))
def test_rounded_weights_are_within_half_a_unit(inputs, outputs, size, seed):
    matrix = np.random.default_rng(seed).normal(size=(inputs, outputs)).astype(np.float32)
    matrix *= np.float32(10.0**size)
    small = rounded(matrix)
    assert np.abs(small.integers).max() <= LARGEST
    assert (np.abs(small.numbers() - matrix) <= 0.51 * small.scales[None]).all()
    np.testing.assert_array_equal(rounded(small.numbers()).integers, small.integers)


@pytest.mark.parametrize("cell", WRITTEN)
def test_a_model_in_eight_bits_is_near_the_model_and_stays(cell):
    model = make([cell])
    small = in_eight_bits(model)
    one, other = program(small, "m", weights="int8"), program(model, "m", weights="int8")
    pick = re.compile(r"int8_t \w+_weights.*?;", re.S)
    assert pick.findall(one.source) == pick.findall(other.source)
    for a, b in zip(jax.tree.leaves(small), jax.tree.leaves(model), strict=True):
        np.testing.assert_allclose(a, b, atol=0.03)


def test_gradients_pass_through_eight_bits():
    """They are those at the rounded weights, and the compiled weights are the rounded ones."""
    model = make(["lru", "mingru"], architecture=Architecture(encoding=6))
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    x = inputs_like(model, 3, 9)

    def loss(change, params):
        return jnp.square(change(eqx.combine(params, rest))(x)[0]).mean()

    through = jax.jit(jax.value_and_grad(lambda p: loss(in_eight_bits, p)))(params)
    small = eqx.filter(in_eight_bits(model), eqx.is_inexact_array)
    at = jax.jit(jax.value_and_grad(lambda p: loss(lambda model: model, p)))(small)
    for a, b in zip(jax.tree.leaves(through), jax.tree.leaves(at), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@here
def test_training_in_eight_bits_loses_nothing_when_exported(tmp_path):
    options = {"tiny": True, "encoding": 0, "steps": 64, "batch": 8}
    experiment = persistor.Experiment.of("parity", eight_bits=True, **options)
    with jax.numpy_dtype_promotion("standard"):
        persistor.train(experiment, runs=tmp_path)
    model = persistor.load(tmp_path / experiment.name)
    for a, b in zip(jax.tree.leaves(in_eight_bits(model)), jax.tree.leaves(model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    found = agreement(compiled(model, tmp_path, "int8"), random_examples(model))
    assert found.same == 1.0
    assert persistor.Experiment.from_json(experiment.to_json()) == experiment
    assert "--eight-bits" in command_of(experiment)
    assert "eight_bits" not in persistor.Experiment.of("parity").to_json()["training"]


# Text.


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_come_back_from_their_text(number):
    text = decimal(number)
    assert text.endswith("f")
    assert re.search(r"[.e]", text)
    assert np.float32(text[:-1]) == np.float32(number)


@given(st.text())
def test_any_folder_has_a_name_in_c(text):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", identifier(text))
    assert identifier(identifier(text)) == identifier(text)


def test_names_that_c_keeps_for_itself_are_avoided():
    assert identifier("int") == "model_int"
    assert identifier("3 words") == "model_3_words"
    assert identifier("My-Model") == "my_model"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_strings_of_c_are_plain(text):
    inside = string(text)[1:-1]
    assert "NAME" not in inside
    assert "?" not in inside
    assert inside.isascii()
    assert (
        re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), inside.encode()) == text.encode()
    )


# Refusals.


class Own(CMRU):
    """A cell that no writer knows."""


def refused(model, **options):
    with pytest.raises(PersistorError) as caught:
        program(model, "model", **options)
    return str(caught.value)


def test_what_c_cannot_compute_is_refused_by_name():
    model = make(["cmru"])
    own = eqx.tree_at(lambda m: m.blocks[0].cell, model, Own(WIDTH, UNITS, key=jax.random.key(0)))
    assert "the cell Own cannot be exported" in refused(own)
    assert "a Backbone" in refused(CMRU(4, 2, key=jax.random.key(0)))
    halves = jax.tree.map(lambda a: a.astype(jnp.bfloat16) if eqx.is_array(a) else a, model)
    assert "bfloat16; C computes in float32" in refused(halves)
    broken = eqx.tree_at(lambda m: m.blocks[0].skip, model, jnp.full(WIDTH, jnp.nan))
    assert ".blocks[0].skip holds a value that is not a finite number" in refused(broken)
    assert "inputs it does not describe" in refused(model, features=True)
    pixels = make(["cmru"], preparation=Preparation("pixels", inputs=13))
    assert "reads pixels" in refused(pixels, features=True)


# Folders.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    persistor.save(make(["cmru"], pooling="mean", preparation=EAR), path)
    return path


def command(*words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def tree(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.slow
@here
def test_a_folder_builds_and_checks_itself(saved, tmp_path, capsys):
    folder = tmp_path / "kws"
    assert command("export", "c", saved, "--folder", folder, "--features", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["name"] == "kws"
    done = subprocess.run(["make", "-C", folder, "check", "all"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"4 sequences, largest difference \S+, \S+ is allowed", done.stdout)
    assert {p.name for p in (folder / "build").iterdir()} == {"kws.o", "libkws.a", "check", "words"}
    # The same command again gives the same folder; what was built is gone.
    before = {k: v for k, v in tree(folder).items() if k.parts[0] != "build"}
    assert command("export", "c", saved, "--folder", folder, "--features") == 0
    assert tree(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["kws"]


@pytest.mark.parametrize("what", ["foreign", "added", "changed", "file", "damaged"])
def test_a_folder_that_is_not_ours_is_left_as_it_is(what, saved, tmp_path, capsys):
    folder = tmp_path / "kws"
    if what == "file":
        folder.write_text("a file")
    elif what == "foreign":
        folder.mkdir()
        (folder / "thesis.txt").write_text("years of work")
    else:
        assert command("export", "c", saved, "--folder", folder) == 0
        changed = {"added": "src/mine.c", "changed": "src/kws.c", "damaged": MANIFEST}[what]
        (folder / changed).write_text("{}")
    before = tree(tmp_path)
    capsys.readouterr()
    assert command("export", "c", saved, "--folder", folder, "--weights", "int8") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert tree(tmp_path) == before


def test_a_folder_is_whole_or_absent(tmp_path):
    with pytest.raises(TypeError):
        write_folder(tmp_path / "new", {"a": b"text", "b": 3})
    assert list(tmp_path.iterdir()) == []
    about = {"name": "new", "weights": "float", "features": False}
    write_folder(tmp_path / "new", {"a": b"text"}, **about)
    with pytest.raises(TypeError):
        write_folder(tmp_path / "new", {"a": b"other", "b": 3})
    assert (tmp_path / "new" / "a").read_text() == "text"
    with pytest.raises(PersistorError, match="does not exist"):
        write_folder(tmp_path / "no" / "new", {"a": b"text"})


@pytest.mark.slow
@on_boards
@strict
def test_verify_makes_every_check_and_says_so(saved, tmp_path, capsys):
    folder = tmp_path / "kws"
    command("export", "c", saved, "--folder", folder, "--features", "--weights", "int8")
    (tmp_path / "yes").mkdir()
    with wave.open(str(tmp_path / "yes" / "one.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(invented_sound(EAR, 5).astype("<i2").tobytes())
    listed = tmp_path / "list.txt"
    listed.write_text("yes/one.wav\n")
    capsys.readouterr()
    assert command("export", "verify", folder, saved, "--inputs", listed) == 0
    said = capsys.readouterr().out
    lines = [line.split()[:2] for line in said.splitlines()]
    assert re.search(
        r"1 sounds as PCM: .* 100.00% .*; accuracy ([01])\.0000, of the model \1", said
    )
    names = ["files", "gcc", "clang", "model", "sounds", "sanitizers"]
    names += [*(board.title for board in boards.BOARDS), "latency"]
    assert lines == [[name, "holds"] for name in names]
    assert command("export", "verify", folder, saved, "--json", "--examples", "3") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"]["sequences"] == 3
    assert found["model"]["wrong_states"] == 0
    assert found["latency"]["gcc"] < 1e-3


def test_verify_refuses_what_it_cannot_vouch_for(saved, tmp_path, capsys):
    folder, other = tmp_path / "kws", tmp_path / "other.safetensors"
    command("export", "c", saved, "--folder", folder)
    persistor.save(make(["cmru"], pooling="mean", preparation=EAR, seed=1), other)
    (tmp_path / "list.txt").write_text("nowhere.wav\n")
    for wanted, arguments in {
        "another model": (folder, other),
        "no folder of": (tmp_path, saved),
        "at least 1": (folder, saved, "--examples", "0"),
        "nowhere.wav, which cannot be found": (folder, saved, "--inputs", tmp_path / "list.txt"),
    }.items():
        capsys.readouterr()
        assert command("export", "verify", *arguments) == 2
        assert wanted in capsys.readouterr().err
    (folder / "src" / "kws.c").write_text("int main(void) { return 0; }")
    assert command("export", "verify", folder, saved) == 2
    assert "was changed" in capsys.readouterr().err


@here
def test_a_program_that_computes_something_else_fails(tmp_path):
    """The comparison can fail: one weight moved, one sign turned."""
    model = make(["cmru"])
    host = compiled(model, tmp_path)
    moved = eqx.tree_at(
        lambda m: m.blocks[0].cell.project.bias, model, -model.blocks[0].cell.project.bias - 0.3
    )
    host.program = dataclasses.replace(host.program, model=moved)
    assert not agreement(host, random_examples(model)).holds


def test_ties_are_what_they_are_said_to_be():
    """A candidate on its threshold has margin 0, and nothing after it is sure."""
    model = make(["bmru"], architecture=Architecture(encoding=0))
    cell = model.blocks[0].cell
    tied = eqx.tree_at(
        lambda m: (m.blocks[0].cell.project.weight, m.blocks[0].cell.project.bias),
        model,
        (jnp.zeros_like(cell.project.weight), jnp.ones_like(cell.project.bias)),
    )
    found = truth(tied, inputs_like(model, 2, 5))
    assert not found.margins.any()
    for weights, size in TIES.items():
        assert not found.sure(weights).any()
        assert size < 0.01
    free = truth(make(["lru"]), inputs_like(model, 2, 5))
    assert free.sure("int8").all()
    assert np.iscomplexobj(free.states[0])


@here
def test_the_program_of_the_page_runs(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "microcontroller.md").read_text()
    (text,) = re.findall(r"^```c\n(.*?)^```", page, re.M | re.S)
    cell = CMRU(WIDTH, 1, epsilon=-1.0, key=jax.random.key(0))
    model = Backbone(1, 2, (cell,), width=WIDTH, key=jax.random.key(1))
    written(program(model, "parity"), tmp_path)
    (tmp_path / "main.c").write_text(text)
    sources = [tmp_path / "main.c", tmp_path / "parity.c"]
    run([host_compilers()[0], *STRICT, *sources, "-o", tmp_path / "main", "-lm"])
    outputs, _ = model(np.array([[1.0], [0.0], [1.0], [1.0]], np.float32))
    assert run([tmp_path / "main"]).decode() == ("odd\n" if outputs[1] > outputs[0] else "even\n")


@here
def test_every_finding_of_a_folder_holds_from_python(saved, tmp_path):
    model = persistor.load(saved)
    made = program(model, "kws")
    write(tmp_path / "kws", made, invented(model, "float", features=False))
    findings = list(verify(tmp_path / "kws", model, random_examples(model)))
    assert {f.holds for f in findings} <= {True, None}
    assert all("apt-get install" in f.text for f in findings if f.holds is None)
