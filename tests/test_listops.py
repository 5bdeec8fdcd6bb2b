"""Laws of ListOps: values, lengths, files, and that nothing but the seed decides them."""

import dataclasses
import lzma
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from on_this_machine import real

from persistor import PersistorError
from persistor.data import listops_grammar as listops
from persistor.data.listops_grammar import D20S, GRAMMARS, LRA, TOKENS, Grammar, evaluate

SMALL = Grammar(
    depth=5,
    arguments=4,
    shortest=10,
    longest=60,
    files=(("basic_train.tsv", 2_500), ("basic_val.tsv", 300), ("basic_test.tsv", 300)),
    labels_first=False,
)
NAMES = [name for name, _ in SMALL.files]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listops")
    listops.write(folder, SMALL, seed=3, processes=1)
    return folder


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7", 7),
        ("[MIN 4 2 8 ]", 2),
        ("[MAX 4 2 8 ]", 8),
        ("[MED 4 2 8 ]", 4),
        ("[MED 4 2 9 8 ]", 6),
        ("[MED 1 2 ]", 1),
        ("[SM 4 2 8 ]", 4),
        ("( ( ( [MAX 2 ) ( ( ( [MIN 4 ) 7 ) ] ) ) ] )", 4),
        ("[SM [MAX 9 [MED 1 5 ] ] [SM 5 6 ] ]", 0),
    ],
)
def test_values(expression, value):
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    "expression",
    ["", "]", "[MAX ]", "[MAX 1", "1 2", "[MAX 1 ] ]", "[AVG 1 2 ]", "12", "( )", "[MAX 1 2 ] 3"],
)
def test_what_is_not_an_expression_is_refused(expression):
    with pytest.raises(PersistorError):
        evaluate(expression)


def test_the_publishers_labels():
    path = real("listops/test_d20s.tsv", "test_d20s.tsv.xz")
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    pairs = [line.split("\t") for line in text.splitlines()]
    assert len(pairs) == 10_000
    assert all(evaluate(source) == int(label) for label, source in pairs)


def test_the_publishers_file_is_read_as_it_is(tmp_path):
    path = real("listops/test_d20s.tsv", "test_d20s.tsv.xz")
    if path.suffix == ".xz":
        plain = tmp_path / "test_d20s.tsv"
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        path = plain
    found = listops.read(path)
    assert len(found) == 10_000
    assert all(evaluate(found.text(i)) == found.values[i] for i in range(10_000))


@pytest.mark.slow
def test_the_original_settings_give_the_originals_lengths(tmp_path):
    path = real("listops/test_d20s.tsv", "test_d20s.tsv.xz")
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    theirs = [sum(t not in "()" for t in line.split()) - 1 for line in text.splitlines()]
    listops.write(tmp_path, D20S)
    ours = listops.read(tmp_path / "test_d20s.tsv").lengths
    assert len(ours) == 10_000
    grid = np.arange(1_000)
    shares = [np.searchsorted(np.sort(x), grid, side="right") / 10_000 for x in (theirs, ours)]
    assert np.abs(shares[0] - shares[1]).max() < 0.025  # two samples of 10,000: 0.027 at p = 0.1%


@given(
    st.integers(0, 2**40),
    st.integers(2, 6),
    st.integers(2, 8),
    st.sampled_from([(4, 8), (10, 60), (100, 300)]),
)
def test_drawn_values_are_the_evaluators(seed, depth, arguments, lengths):
    limit = Grammar(depth, arguments, 4, 4, (), False).limit
    shortest, longest = min(lengths[0], limit), lengths[1]
    grammar = Grammar(depth, arguments, shortest, longest, (), False)
    drawn, _ = listops.draw(grammar, np.random.default_rng(seed))
    assert ((drawn.lengths >= shortest) & (drawn.lengths <= longest)).all()
    for i in range(min(len(drawn), 50)):
        text = drawn.text(i)
        assert evaluate(text) == drawn.values[i]
        inside = np.cumsum([("[" in token) - (token == "]") for token in text.split()])
        assert inside.max() < depth


@pytest.mark.parametrize("name", sorted(GRAMMARS))
def test_lengths_and_labels_of_the_presets(name, tmp_path):
    grammar = GRAMMARS[name]
    path = tmp_path / "some.tsv"
    header = b"" if grammar.labels_first else b"Source\tTarget\n"
    path.write_bytes(header + listops.part(grammar, 0, 0))
    found = listops.read(path)
    assert len(found) == listops.PART
    assert all(evaluate(found.text(i)) == found.values[i] for i in range(0, len(found), 10))
    shares = np.bincount(found.values, minlength=10) / len(found)
    assert shares.min() > 0.05  # MIN and MAX make 0 and 9 likelier than the others
    assert shares.max() < 0.2
    if name == "lra":
        assert 500 < found.lengths.min() < 550
        assert 1_900 < found.lengths.max() < 2_000
        assert [size for _, size in grammar.files] == [96_000, 2_000, 2_000]


def test_a_set_has_no_expression_twice(made):
    sets = [listops.read(made / name) for name in NAMES]
    assert [len(each) for each in sets] == [size for _, size in SMALL.files]
    texts = [each.text(i) for each in sets for i in range(len(each))]
    assert len(set(texts)) == len(texts)


def test_the_seed_decides_and_processes_do_not(made, tmp_path):
    for seed, same in ((3, True), (4, False)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        told = []
        report = lambda *counts: told.append(counts)  # noqa: B023, E731
        listops.write(folder, SMALL, seed=seed, processes=2, report=report)
        assert (contents(folder) == contents(made)) == same
        assert told == [(1_000, 3_100), (2_000, 3_100), (3_000, 3_100), (3_100, 3_100)]


def test_an_interrupted_set_goes_on_to_the_same_bytes(made, tmp_path):
    def stop(done, total):
        if done == 2_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        listops.write(tmp_path, SMALL, seed=3, processes=1, report=stop)
    assert not [name for name in NAMES if (tmp_path / name).exists()]

    def parts():
        return {p: p.stat().st_mtime_ns for p in tmp_path.glob(".parts-*/00000?")}

    before, seen = parts(), []
    assert len(before) == 2
    listops.write(tmp_path, SMALL, seed=3, processes=1, report=lambda *_: seen.append(parts()))
    assert contents(tmp_path) == contents(made)
    assert before.items() < seen[-1].items()  # the parts made before the interruption were used
    seen.clear()
    listops.write(tmp_path, SMALL, seed=3, processes=1, report=lambda *_: seen.append(parts()))
    assert seen == []  # all there: nothing is made


@pytest.mark.slow
def test_a_killed_set_goes_on_to_the_same_bytes(made, tmp_path):
    code = f"""
from pathlib import Path
from persistor.data.listops_grammar import *
write(Path({str(tmp_path)!r}), {SMALL!r}, seed=3, processes=1)
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".parts-*/00000?")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    listops.write(tmp_path, SMALL, seed=3, processes=1)
    assert contents(tmp_path) == contents(made)


def test_both_forms_with_parentheses_and_without_and_any_line_ends(tmp_path):
    plain = b"[MAX 1 [SM 2 9 ] ]"
    nested = b"( ( ( [MAX 1 ) ( ( ( [SM 2 ) 9 ) ] ) ) ] )"
    forms = [
        b"Source\tTarget\n" + nested + b"\t1\n5\t5\n",
        b"Source\tTarget\r\n" + nested + b"\t1\r\n5\t5",
        b"1\t" + nested + b"\n5\t5\n",
        b"1\t" + plain + b"\n5\t5\n",
    ]
    for form in forms:
        path = tmp_path / "form.tsv"
        path.write_bytes(form)
        found = listops.read(path)
        assert found.values.tolist() == [1, 5]
        assert [found.text(0), found.text(1)] == [plain.decode(), "5"]


def lines_or_none(path, data):
    path.write_bytes(data)
    try:
        found = listops.read(path)
    except PersistorError:
        return None
    return [(found.text(i), found.values[i]) for i in range(len(found))]


@pytest.mark.parametrize("labels_first", [False, True])
def test_a_cut_file_is_refused_or_read_as_far_as_it_goes(labels_first, tmp_path):
    grammar = dataclasses.replace(SMALL, labels_first=labels_first)
    header = b"" if labels_first else b"Source\tTarget\n"
    data = header + b"".join(listops.part(grammar, 0, 0).splitlines(keepends=True)[:20])
    whole = lines_or_none(tmp_path / "x", data)
    assert whole is not None
    assert len(whole) == 20
    refused = 0
    for end in range(0, len(data), 7):
        found = lines_or_none(tmp_path / "x", data[:end])
        refused += found is None
        if found is not None:
            assert found == whole[: len(found)]
    assert refused > len(data) // 7 * 0.9


@given(st.data())
def test_a_changed_byte_is_refused_or_still_an_expression(data):
    lines = listops.part(SMALL, 0, 0).splitlines(keepends=True)[:3]
    text = bytearray(b"Source\tTarget\n" + b"".join(lines))
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        for expression, value in lines_or_none(Path(folder) / "x", bytes(text)) or ():
            assert 0 <= evaluate(expression) <= 9
            assert 0 <= value <= 9


@given(st.lists(st.sampled_from([*TOKENS, "[", "MAX", "11", "\1", ""]), max_size=8))
def test_reader_and_evaluator_agree_on_what_an_expression_is(tokens):
    text = " ".join(tokens)
    try:
        evaluate(text)
    except PersistorError:
        expected = False
    else:
        expected = text == text.strip() and "  " not in text
    assert (listops._tokens(text.encode()) is not None) == expected


def test_mistakes(tmp_path):
    with pytest.raises(PersistorError, match="cannot be read"):
        listops.read(tmp_path / "absent.tsv")
    with pytest.raises(PersistorError, match="cannot be read"):
        listops.read(tmp_path)
    (tmp_path / "empty.tsv").write_bytes(b"")
    with pytest.raises(PersistorError, match="no expressions"):
        listops.read(tmp_path / "empty.tsv")
    (tmp_path / "bad.tsv").write_bytes(b"Source\tTarget\n[MAX 1 2 ]\t2\n[MAX 1 ]\t17\n")
    with pytest.raises(PersistorError, match="line 3"):
        listops.read(tmp_path / "bad.tsv")
    with pytest.raises(PersistorError, match="negative"):
        listops.write(tmp_path, SMALL, seed=-1)
    with pytest.raises(PersistorError, match="cannot write"):
        listops.write(tmp_path / "empty.tsv", SMALL)
    for changes in ({"depth": 1}, {"arguments": 1}, {"shortest": 70}, {"longest": 3}):
        with pytest.raises(PersistorError):
            dataclasses.replace(SMALL, **changes)
    with pytest.raises(PersistorError, match="longest 10"):
        Grammar(3, 2, 11, 20, (), False)
    assert LRA.limit > 2_000
