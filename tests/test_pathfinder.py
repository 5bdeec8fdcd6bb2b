"""Laws of Pathfinder: the picture answers the question, and nothing but the seed decides it."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from scipy.sparse.csgraph import connected_components
from scipy.spatial import distance

from persistor import PersistorError
from persistor.data import pathfinder_images as pathfinder
from persistor.data.pathfinder_images import PART, SIZES, Scenes, draw_scenes, render

FINE = 8  # dots a pixel in the test's own drawing
SPLITS = {"train": 50, "valid": 20, "test": 10}


write_few = functools.partial(pathfinder.write, part_size=20, together=40, processes=1)


@pytest.fixture(scope="module")
def scenes():
    return draw_scenes(np.random.default_rng(11), (np.arange(40) % 2).astype(np.uint8), 40)


def there(scenes, picture):
    """The paddles of a picture that were placed."""
    paddles = scenes.paddles[picture]
    return paddles[paddles[:, 0].real < pathfinder.ABSENT / 2]


def drawn_fine(paddles):
    """Where the test's own drawing of some paddles is."""
    dots = paddles[:, :1] + np.linspace(0, 1, 3 * FINE) * (paddles[:, 2:] - paddles[:, :1])
    canvas = np.zeros((32 * FINE, 32 * FINE), bool)
    canvas[(FINE * dots.imag).astype(int), (FINE * dots.real).astype(int)] = True
    return canvas


def test_the_discs_are_connected_where_the_label_says_so(scenes):
    """Read from the drawing alone: paddles within a gap of each other belong together."""
    for picture, label in enumerate(scenes.labels):
        paddles = there(scenes, picture)
        dots = paddles[:, :1] + np.linspace(0, 1, 33) * (paddles[:, 2:] - paddles[:, :1])
        flat = np.stack([dots.real, dots.imag], -1).reshape(-1, 2)
        apart = distance.cdist(flat, flat).reshape(len(dots), 33, len(dots), 33).min((1, 3))
        assert not ((apart > 2.01) & (apart < 2.18)).any()  # no doubt about any two paddles
        count, islands = connected_components(apart <= 2.01)
        near = [np.abs(dots - point).min(1).argmin() for point in scenes.markers[picture]]
        assert (islands[near[0]] == islands[near[1]]) == bool(label)
        assert count == 2 + (len(paddles) - 28) / 4  # nothing touches anything else


def test_contours_are_the_publishers(scenes):
    for picture in range(len(scenes.labels)):
        paddles = there(scenes, picture)
        np.testing.assert_allclose(np.abs(paddles[:, 2] - paddles[:, 0]), 2, atol=1e-4)
        assert paddles.real.min() >= 2
        assert paddles.imag.min() >= 2
        assert paddles.real.max() <= 30
        assert paddles.imag.max() <= 30
        assert (len(paddles) - 28) % 4 == 0
        contours = [paddles[:28:2], paddles[1:28:2]]
        np.testing.assert_allclose(np.abs(contours[0][0, 0] - contours[1][0, 0]), 7, atol=1e-4)
        for contour in contours:
            gaps = np.abs(contour[1:, 0] - contour[:-1, 2])
            assert gaps.max() <= 2 + 1e-4
            assert gaps.min() >= np.sqrt(2) - 1e-4  # turns are at most right angles
    placed = [(len(there(scenes, i)) - 28) / 4 for i in range(len(scenes.labels))]
    assert 2 < np.mean(placed) <= 5


def test_turns_have_density_cos_squared():
    shares, angles = pathfinder._TURN_SHARES, pathfinder._TURN_ANGLES
    assert shares[0] == pytest.approx(0)
    assert shares[-1] == pytest.approx(1)
    density = np.diff(shares) / np.diff(angles)
    middle = (angles[1:] + angles[:-1]) / 2
    np.testing.assert_allclose(density, 2 / np.pi * np.cos(middle) ** 2, atol=1e-4)


def test_what_is_drawn_is_what_is_there(scenes):
    images = render(scenes)
    assert images.shape == (40, 32, 32)
    for picture, image in enumerate(images):
        paddles = there(scenes, picture)
        away = ndimage.distance_transform_edt(~drawn_fine(paddles)) / FINE
        for point in scenes.markers[picture]:
            y, x = int(point.imag), int(point.real)
            assert image[y, x] >= 250
            rows, columns = np.mgrid[: 32 * FINE, : 32 * FINE] / FINE
            away = np.minimum(away, np.hypot(rows - point.imag, columns - point.real) - 1.5)
        nearest = away.reshape(32, FINE, 32, FINE).min((1, 3))
        assert image[nearest > 1.5].max() < 40  # but for the ripples of the filter: black
        seen = ndimage.maximum_filter(image, 3)
        middles = paddles[:, 1]
        assert seen[middles.imag.astype(int), middles.real.astype(int)].min() > 50


@settings(max_examples=5)
@given(st.integers(0, 2**40))
def test_a_picture_depends_on_geometry_alone(seed):
    """Half a turn of the scene is half a turn of the picture, but for rounding."""
    scenes = draw_scenes(np.random.default_rng(seed), np.array([0, 1], np.uint8), 40)
    absent = scenes.paddles.real > pathfinder.ABSENT / 2
    turned = np.where(absent, pathfinder.ABSENT, 32 + 32j - scenes.paddles).astype(np.complex64)
    markers = (32 + 32j - scenes.markers).astype(np.complex64)
    one, other = render(scenes), render(Scenes(turned, markers, scenes.labels))[:, ::-1, ::-1]
    assert np.abs(one.astype(int) - other).mean() < 1


def test_a_set_is_balanced_and_whole(tmp_path):
    told = []
    paths = write_few(tmp_path, SPLITS, seed=1, report=lambda *counts: told.append(counts))
    assert sorted(tmp_path.iterdir()) == sorted(paths.values())
    assert told[-1] == (80, 80)
    read = {name: pathfinder.read(path) for name, path in paths.items()}
    assert [len(labels) for _, labels in read.values()] == [50, 20, 10]
    labels = np.concatenate([labels for _, labels in read.values()])
    assert labels[:80].reshape(4, 20).sum(1).tolist() == [10] * 4
    images = np.concatenate([images for images, _ in read.values()])
    assert images.dtype == np.uint8
    assert len(np.unique(images.reshape(80, -1), axis=0)) == 80


def test_the_papers_sizes():
    assert SIZES == {"train": 160_000, "valid": 20_000, "test": 20_000}
    assert all(size % PART == 0 for size in SIZES.values())  # so that every split is balanced


def test_the_seed_decides_and_an_interruption_does_not(tmp_path):
    def stop(done, total):
        if done >= 40:
            raise KeyboardInterrupt

    def contents(name, seed, **options):
        folder = tmp_path / name
        write_few(folder, SPLITS, seed=seed, **options)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    whole = contents("whole", 1)
    with pytest.raises(KeyboardInterrupt):
        contents("stopped", 1, report=stop)
    assert not list((tmp_path / "stopped").glob("*.npy"))
    assert len(list((tmp_path / "stopped").glob(".parts-*/00000?"))) == 2
    assert contents("stopped", 1) == whole
    assert contents("other", 2) != whole


def test_mistakes(tmp_path):
    with pytest.raises(PersistorError, match="negative"):
        pathfinder.write(tmp_path, seed=-1)
    with pytest.raises(PersistorError, match="cannot be read"):
        pathfinder.read(tmp_path / "absent.npy")
    np.save(tmp_path / "other.npy", np.zeros((3, 32, 32), np.uint8))
    with pytest.raises(PersistorError, match="does not hold"):
        pathfinder.read(tmp_path / "other.npy")
    paths = write_few(tmp_path, {"test": 10})
    data = paths["test"].read_bytes()
    for end in [0, 5, 50, 100, 128, 129, 1_000, len(data) - 1]:
        (tmp_path / "cut.npy").write_bytes(data[:end])
        with pytest.raises(PersistorError):
            pathfinder.read(tmp_path / "cut.npy")
