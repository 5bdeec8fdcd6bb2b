"""Pathfinder (Linsley et al., 2018): do two discs lie on the same dashed path?

This is the 32 x 32 setting of Long Range Arena (Tay et al., 2020), with its publisher's names. Two
contours of 14 paddles begin 7 pixels apart and turn by angles of density cos^2 without touching
anything; short contours distract. One disc is at the beginning of a contour, the other at the end
of the same or of the other contour. Neighbours on a contour are at most 2 pixels apart, all other
paddles at least 2.25, so the picture always answers the question.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from persistor._tools.errors import PersistorError
from persistor._tools.files import replacing
from persistor.data.workers import Parts, Report, silent

SIZE = 32  # pixels
PADDING = 1
SEED_DISTANCE = 7.0
CONTOUR_LENGTH = 14  # paddles
PADDLE_LENGTH = 2
PADDLE_MARGIN = 1.0  # free pixels before and after a paddle
PADDLE_CONTRAST = 0.75
CONTINUITY = 1.0
DISTRACTOR_LENGTH = CONTOUR_LENGTH // 3
DISTRACTORS = 20 // DISTRACTOR_LENGTH  # fewer if there is no room
MARKER_RADIUS = 1.5
ANTIALIAS = 2

CLEARANCE = 2.25  # between paddles that are not neighbours; neighbours are at most 2 apart
LOWEST = PADDING + PADDLE_MARGIN
HIGHEST = SIZE - LOWEST
TARGETS = 2 * CONTOUR_LENGTH
PADDLES = TARGETS + DISTRACTORS * DISTRACTOR_LENGTH
FAN = 16  # directions tried together for a paddle
BACK = 3  # paddles of each contour that are removed, at most, if none of them fits
RESTARTS = 0.05  # fraction of such cases in which both contours start again
PLACES = 12  # attempts to place a distractor's first paddle
RETRIALS = 6  # attempts to place a distractor
TOGETHER = 250  # pairs of contours grown at a time
ABSENT = 1e3  # coordinate of a paddle that does not exist

SIZES = {"train": 160_000, "valid": 20_000, "test": 20_000}
PART = 1_000  # pictures in a part
RECORD = np.dtype([("label", np.uint8), ("image", np.uint8, (SIZE, SIZE))])

Points = NDArray[np.complex64]  # x + iy, in pixels from the corner
Rows = NDArray[np.intp]


@dataclass
class Scenes:
    """Pictures as geometry. Paddle 2 i + c is number i of contour c; then come the distractors."""

    paddles: Points  # (n, PADDLES, 3): first, middle and last point
    markers: Points  # (n, 2)
    labels: NDArray[np.uint8]


def draw_scenes(
    rng: np.random.Generator, labels: NDArray[np.uint8], together: int = TOGETHER
) -> Scenes:
    """Scenes with these answers: 1 where the discs share a contour."""
    rows = np.arange(len(labels))
    paddles = np.full((len(labels), PADDLES, 3), ABSENT, np.complex64)
    paddles[:, :TARGETS] = _contours(rng, len(labels), together)
    for number in range(DISTRACTORS):
        _add_distractor(paddles, TARGETS + number * DISTRACTOR_LENGTH, rng)
    origin = rng.integers(0, 2, len(labels))
    terminal = np.where(labels == 1, origin, 1 - origin)
    begins, ends = paddles[rows, origin, 0], paddles[rows, TARGETS - 2 + terminal, 2]
    return Scenes(paddles, np.stack([begins, ends], 1), labels)


def _contours(rng: np.random.Generator, count: int, together: int) -> Points:
    """Pairs of contours, grown in turn; a pair that gets stuck loses a few paddles."""
    paddles = np.full((together, TARGETS, 3), ABSENT, np.complex64)
    column = np.zeros(together, np.intp)  # of the next paddle
    rows = restarted = np.arange(together)
    finished: list[Points] = []
    while sum(map(len, finished)) < count:
        column[restarted] = 2
        paddles[restarted, :2] = _first_paddles(rng, len(restarted))
        paddles[np.arange(TARGETS) >= column[:, None]] = ABSENT
        placed = _extend(paddles, rows, column, column - 2, rng)
        stuck = rows[~placed]
        column += placed
        column[stuck] = np.maximum(column[stuck] - 2 * rng.integers(1, BACK + 1, len(stuck)), 2)
        done = rows[column == TARGETS]
        finished.append(paddles[done])
        restarted = np.concatenate([done, stuck[rng.random(len(stuck)) < RESTARTS]])
    return np.concatenate(finished)[:count]


def _first_paddles(rng: np.random.Generator, count: int) -> Points:
    """The first paddles of both contours: near the middle, where there is always room."""
    corner = 2 * SEED_DISTANCE * (1 + 1j)
    one = corner + _anywhere(rng, (count,), SIZE - 4 * SEED_DISTANCE)
    other = one + SEED_DISTANCE * _direction(rng, (count,))
    return _paddle(np.stack([one, other], 1), _direction(rng, (count, 2)))


def _add_distractor(paddles: Points, first: int, rng: np.random.Generator) -> None:
    """Add one short contour to each picture that has room for it."""

    def anywhere(some: Rows) -> Points:
        shape = (len(some), PLACES)
        begin = LOWEST * (1 + 1j) + _anywhere(rng, shape, HIGHEST - LOWEST)
        return _paddle(begin, _direction(rng, shape))

    missing = np.arange(len(paddles))
    for _ in range(RETRIALS):
        column = np.full(len(missing), first)
        rows = missing[_place(paddles, missing, column, None, (anywhere,))]
        for later in range(first + 1, first + DISTRACTOR_LENGTH):
            column = np.full(len(rows), later)
            rows = rows[_extend(paddles, rows, column, column - 1, rng)]
        missing = np.setdiff1d(missing, rows)
        paddles[missing, first:] = ABSENT


def _extend(
    paddles: Points, rows: Rows, column: Rows, previous: Rows, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Add a paddle after another, turned by an angle of density cos^2; whether there was room.

    If there is no room at the first angle, a fan of angles is tried in random order, likelier ones
    earlier. So the angle has that density among those with room.
    """

    def turned(some: Rows, angle: NDArray[np.float64]) -> Points:
        first, _, last = paddles[rows[some], previous[some]].T[..., None]
        ahead = (last - first) / PADDLE_LENGTH
        direction = ahead * np.exp(1j * angle)
        return _paddle(last + PADDLE_MARGIN * (ahead + direction), direction)

    def one(some: Rows) -> Points:
        return turned(some, np.interp(rng.random((len(some), 1)), _TURN_SHARES, _TURN_ANGLES))

    def fan(some: Rows) -> Points:
        angle = (np.arange(FAN) + rng.random((len(some), FAN))) / FAN - 0.5
        order = rng.exponential(size=angle.shape) / np.cos(np.pi * angle) ** 2
        angle = np.take_along_axis(angle, order.argsort(1), 1)
        return turned(some, angle * np.pi / CONTINUITY)

    return _place(paddles, rows, column, previous, (one, fan))


def _place(
    paddles: Points,
    rows: Rows,
    column: Rows,
    neighbour: Rows | None,
    proposals: Sequence[Callable[[Rows], Points]],
) -> NDArray[np.bool_]:
    """Put the first proposal with room into each row's column; whether there was one.

    A proposal function returns several paddles for each of some rows: (n, k, 3).
    """
    missing = np.arange(len(rows))
    for propose in proposals:
        proposal = propose(missing)
        free = _inside(proposal)
        row, number = np.nonzero(free)
        some = missing[row]
        next_to = None if neighbour is None else neighbour[some]
        free[row, number] = _clear(proposal[row, number], paddles[rows[some]], next_to)
        has_free, first = free.any(1), free.argmax(1)
        some = missing[has_free]
        paddles[rows[some], column[some]] = proposal[has_free, first[has_free]]
        missing = missing[~has_free]
    placed = np.ones(len(rows), bool)
    placed[missing] = False
    return placed


def _inside(paddle: Points) -> NDArray[np.bool_]:
    nearest = np.minimum(paddle.real, paddle.imag).min(-1)
    farthest = np.maximum(paddle.real, paddle.imag).max(-1)
    return (nearest >= LOWEST) & (farthest <= HIGHEST)


def _clear(paddle: Points, others: Points, neighbour: Rows | None) -> NDArray[np.bool_]:
    """Whether a paddle (n, 3) is far enough from others (n, k, 3), except its neighbour."""
    if neighbour is not None:
        others[np.arange(len(others)), neighbour] = ABSENT
    points = others.reshape(len(others), 1, 3 * others.shape[1])
    across = np.ascontiguousarray(points.real) - paddle.real[:, :, None]
    down = np.ascontiguousarray(points.imag) - paddle.imag[:, :, None]
    across *= across
    down *= down
    across += down
    return across.min((1, 2)) >= CLEARANCE**2


def _paddle(begin: NDArray[np.complexfloating], direction: NDArray[np.complexfloating]) -> Points:
    along = PADDLE_LENGTH * np.array([0, 0.5, 1])
    return (begin[..., None] + along * direction[..., None]).astype(np.complex64)


def _direction(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.complex128]:
    return np.exp(2j * np.pi * rng.random(shape))


def _anywhere(
    rng: np.random.Generator, shape: tuple[int, ...], width: float
) -> NDArray[np.complex128]:
    return width * (rng.random(shape) + 1j * rng.random(shape))


# The cumulative distribution of turns: the integral of cos^2(continuity * angle).
_TURN_ANGLES = np.linspace(-np.pi / 2, np.pi / 2, 1_001) / CONTINUITY
_TURN_SHARES = 0.5 + (_TURN_ANGLES * CONTINUITY + np.sin(2 * _TURN_ANGLES * CONTINUITY) / 2) / np.pi


def _lanczos() -> NDArray[np.float32]:
    """The matrix that reduces a row at `ANTIALIAS` times the resolution to pixels (Lanczos 3)."""
    fine = (np.arange(ANTIALIAS * SIZE) + 0.5) / ANTIALIAS
    apart = fine - (np.arange(SIZE) + 0.5)[:, None]
    weights = np.sinc(apart) * np.sinc(apart / 3) * (np.abs(apart) < 3)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


_REDUCE = _lanczos()
_ALONG = np.linspace(0, 1, ANTIALIAS * PADDLE_LENGTH + 1, dtype=np.float32)
_AROUND = np.arange(-ANTIALIAS * 2, ANTIALIAS * 2 + 1)
_DISC = (_AROUND + 1j * _AROUND[:, None]).ravel()


def render(scenes: Scenes) -> NDArray[np.uint8]:
    """Pictures (n, SIZE, SIZE): drawn at twice the resolution, then reduced."""
    first, last = scenes.paddles[..., 0], scenes.paddles[..., 2]
    lines = first[..., None] + _ALONG * (last - first)[..., None]
    fine = np.zeros((len(lines), ANTIALIAS * SIZE, ANTIALIAS * SIZE), np.float32)
    picture, paddle, step = np.nonzero(lines.real < ABSENT / 2)
    dots = ANTIALIAS * lines[picture, paddle, step]
    fine[picture, dots.imag.astype(np.intp), dots.real.astype(np.intp)] = PADDLE_CONTRAST
    centres = ANTIALIAS * scenes.markers[..., None]
    cells = np.floor(centres.real) + 1j * np.floor(centres.imag) + _DISC
    within = np.abs(cells + (0.5 + 0.5j) - centres) <= ANTIALIAS * MARKER_RADIUS
    picture, marker, cell = np.nonzero(within)
    dots = cells[picture, marker, cell]
    fine[picture, dots.imag.astype(np.intp), dots.real.astype(np.intp)] = 1
    reduced = _REDUCE @ fine @ _REDUCE.T
    return np.rint(255 * np.clip(reduced, 0, 1)).astype(np.uint8)


def part(seed: int, size: int, together: int, index: int) -> bytes:
    """Part `index` of a seed's endless set: `size` records of pictures, half of them connected."""
    rng = np.random.default_rng([seed, index])
    labels = rng.permutation(np.arange(size) % 2).astype(np.uint8)
    records = np.empty(size, RECORD)
    records["label"], records["image"] = labels, render(draw_scenes(rng, labels, together))
    return records.tobytes()


def write(
    folder: Path,
    sizes: Mapping[str, int] = SIZES,
    *,
    seed: int = 0,
    report: Report = silent,
    processes: int | None = None,
    part_size: int = PART,
    together: int = TOGETHER,
) -> dict[str, Path]:
    """Make one .npy file of records for each split; nothing to do if all files exist.

    `part_size` and `together`, the contours grown at a time, both decide the bytes.
    """
    if seed < 0:
        raise PersistorError(f"seed is {seed}; it must not be negative")
    paths = {name: folder / f"pathfinder32_{name}.npy" for name in sizes}
    if all(path.exists() for path in paths.values()):
        return paths
    make = functools.partial(part, seed, part_size, together)
    parts = Parts(make, folder, f"pathfinder {seed} {part_size} {together}")
    total, done, waiting = sum(sizes.values()), 0, b""
    with contextlib.closing(parts.stream(processes)) as stream, contextlib.ExitStack() as stack:
        for name, size in sizes.items():
            file = stack.enter_context(replacing(paths[name], parts.folder))
            file.write(_header(size))
            missing = size * RECORD.itemsize
            while missing:
                waiting = waiting or next(stream)
                chunk, waiting = waiting[:missing], waiting[missing:]
                file.write(chunk)
                missing -= len(chunk)
                done += len(chunk) // RECORD.itemsize
                report(done, total)
    parts.remove()
    return paths


def _header(size: int) -> bytes:
    """The header of an .npy file with this many records."""
    header = io.BytesIO()
    described = np.lib.format.header_data_from_array_1_0(np.empty(0, RECORD))
    np.lib.format.write_array_header_1_0(header, described | {"shape": (size,)})
    return header.getvalue()


def read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Pictures (n, 32, 32) and labels (n,) of a file, which stay on disk until they are used."""
    try:
        records = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise PersistorError(f"{path} cannot be read as an .npy file: {error}") from None
    if not isinstance(records, np.ndarray) or records.dtype != RECORD or records.ndim != 1:
        raise PersistorError(
            f"{path} does not hold Pathfinder pictures; remove it and make it again"
        )
    return records["image"], records["label"]
