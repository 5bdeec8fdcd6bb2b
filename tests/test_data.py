"""Data sets as people have them: found where they lie, refused when they are not what they say."""

import contextlib
import dataclasses
import fcntl
import hashlib
import http.server
import io
import os
import pickle
import tarfile
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from publishers import MAKERS, cifar_batches, idx, npz, publish, reviews, tar

from persistor import TASKS, PersistorError
from persistor.data import DATASETS, READERS, cifar10, data_folder, fetch, imdb, mnist, speech
from persistor.data.contents import contents
from persistor.data.dataset import DataSet, File
from persistor.data.mnist import read_idx
from persistor.data.prepared import prepared, read_arrays
from persistor.data.workers import silent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PERSISTOR_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def lay(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_every_data_set_is_read_and_used():
    assert set(DATASETS) == set(READERS) == {task.data for task in TASKS.values()} - {None}
    for name, data in DATASETS.items():
        assert data.name == name
        assert data.make or all(file.url.startswith("http") for file in data.files)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_what_is_missing_is_named_with_its_remedy(name, folder):
    data = DATASETS[name]
    with pytest.raises(PersistorError) as error:
        READERS[name](data, silent)
    assert data.files[0].name in str(error.value)
    assert str(folder) in str(error.value)
    assert (data.files[0].url or f"persistor data fetch {name}") in str(error.value)


def test_the_cache_folder_is_the_platforms_unless_another_is_chosen(monkeypatch):
    monkeypatch.delenv("PERSISTOR_DATA", raising=False)
    assert data_folder().parts[-2:] == ("persistor", "data")
    monkeypatch.setenv("PERSISTOR_DATA", "elsewhere")
    assert str(data_folder()) == "elsewhere"


# Files that are not the publisher's


SMALL = sorted(set(DATASETS) - {"cifar10", "listops", "pathfinder", "speech-commands"})


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("damage", ["cut", "flip", "foreign", "empty"])
def test_a_file_with_another_checksum_is_refused_by_name(name, damage, folder):
    data = publish(folder, name)
    READERS[name](data, silent)
    path = data.found()[0][1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    damaged = {"cut": content[:-7], "flip": content, "foreign": b"hello", "empty": b""}[damage]
    path.write_bytes(damaged)
    with pytest.raises(PersistorError, match=str(path.parent)) as error:
        READERS[name](data, silent)
    checksum = data.files[0].checksum
    assert checksum.partition(":")[2] in str(error.value)


def damaged(content):
    """A copy with bytes cut off, changed, put in or taken out."""

    @st.composite
    def strategy(draw):
        copy = bytearray(content)
        for _ in range(draw(st.integers(1, 4))):
            place = draw(st.integers(0, max(0, min(len(copy) - 1, 600))))
            if draw(st.booleans()):
                place = max(0, len(copy) - 1 - place)
            kind = draw(st.sampled_from(["cut", "change", "insert", "remove"]))
            some = draw(st.binary(min_size=1, max_size=9))
            if kind == "cut":
                del copy[place:]
            elif kind == "change":
                copy[place : place + len(some)] = some
            elif kind == "insert":
                copy[place:place] = some
            else:
                del copy[place : place + len(some)]
        return bytes(copy)

    return strategy()


@contextlib.contextmanager
def refused_or_whole(path):
    """Whatever was done to a file: a line that names it, or all of what is expected of it."""
    try:
        yield
    except PersistorError as error:
        if str(path) not in str(error):
            raise


FUZZ = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)


@FUZZ
@given(damaged(idx(PIXELS)))
def test_damaged_idx(tmp_path, content):
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    with refused_or_whole(path):
        assert read_idx(path, PIXELS.shape).shape == PIXELS.shape


@pytest.mark.parametrize("shape", [(5, 4, 4), (6, 4, 3), (5, 12), (60,)])
def test_idx_of_another_shape(tmp_path, shape):
    path = tmp_path / "x.gz"
    path.write_bytes(idx(PIXELS))
    np.testing.assert_array_equal(read_idx(path, PIXELS.shape), PIXELS)
    with pytest.raises(PersistorError, match="shape"):
        read_idx(path, shape)


FEW = 7  # images of a batch


def forms_of_cifar10():
    for form in ("bin", "py"):
        files = cifar_batches(form, FEW)
        name = {"bin": "cifar-10-binary.tar.gz", "py": "cifar-10-python.tar.gz"}[form]
        yield form, files
        yield name, {name: tar(files)}


def small(data, sizes):
    """A data set of other sizes, whose files may be any."""
    forms = tuple(tuple(dataclasses.replace(f, checksum="") for f in form) for form in data.forms)
    return dataclasses.replace(data, forms=forms, sizes=sizes)


FEW_IMAGES = small(cifar10.CIFAR10, (4 * FEW, FEW, FEW))
FEW_REVIEWS = small(imdb.IMDB, (8, 4, 4))


@pytest.mark.parametrize(("form", "files"), list(forms_of_cifar10()), ids=lambda x: str(x)[:22])
def test_all_forms_of_cifar10_are_the_same(form, files, folder):
    lay(folder, files)
    pixels, classes = cifar10.load(FEW_IMAGES)
    assert pixels.shape == (6 * FEW, 1024, 3)
    rows = np.frombuffer(b"".join(cifar_batches("bin", FEW).values()), np.uint8).reshape(-1, 3073)
    np.testing.assert_array_equal(classes, rows[:, 0])
    np.testing.assert_array_equal(pixels[..., 0], rows[:, 1:1025])
    np.testing.assert_array_equal(pixels[..., 2], rows[:, 2049:])


@FUZZ
@given(st.data())
def test_damaged_cifar10(tmp_path, data):
    for form, parse in (("bin", cifar10._parse_binary), ("py", cifar10._parse_pickled)):
        whole = next(iter(cifar_batches(form, FEW).values()))
        with refused_or_whole(tmp_path):
            pixels, classes = parse(tmp_path, data.draw(damaged(whole)), FEW)
            assert pixels.shape == (FEW, 3072)
            assert classes.max() < 10


def test_a_batch_that_would_run_something_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "evil"),)

    with pytest.raises(PersistorError, match="not allowed"):
        cifar10._parse_pickled(tmp_path, pickle.dumps({b"data": Evil()}), FEW)
    assert not list(tmp_path.iterdir())


def test_a_missing_batch_is_named(folder):
    files = cifar_batches("bin", FEW)
    files.pop("cifar-10-batches-bin/data_batch_3.bin")
    lay(folder, files)
    with pytest.raises(PersistorError, match="data_batch_3"):
        cifar10.load(FEW_IMAGES)


def test_reviews_of_the_archive_and_of_the_folder_are_the_same(folder):
    lay(folder, {"aclImdb_v1.tar.gz": tar(reviews(4))})
    packed = imdb.load(FEW_REVIEWS)
    (folder / "aclImdb_v1.tar.gz").unlink()
    lay(folder, reviews(4))
    unpacked = imdb.load(FEW_REVIEWS)
    np.testing.assert_array_equal(packed.text, unpacked.text)
    np.testing.assert_array_equal(packed.starts, unpacked.starts)
    np.testing.assert_array_equal(packed.favourable, unpacked.favourable)
    assert packed.favourable.sum() == 8
    assert bytes(packed.text[: packed.starts[1]]) == b"test 0 neg <br />"
    # what was prepared is used again, until the folder is another
    lay(folder, {"aclImdb/test/neg/0_2.txt": b"changed"})
    assert bytes(imdb.load(FEW_REVIEWS).text[:7]) == b"changed"


def test_a_review_too_few_is_counted(folder):
    files = reviews(4)
    files.pop("aclImdb/train/pos/2_7.txt")
    lay(folder, files)
    with pytest.raises(PersistorError, match="train/pos has 3 reviews, expected 4"):
        imdb.load(FEW_REVIEWS)
    lay(folder, {"aclImdb/train/pos/2_7.txt": b""})
    with pytest.raises(PersistorError, match=r"2_7\.txt is empty"):
        imdb.load(FEW_REVIEWS)


@FUZZ
@given(damaged(tar(reviews(2))), damaged(tar(reviews(2), packed=False)))
def test_damaged_archive(tmp_path, packed, plain):
    for content in (packed, plain):
        path = tmp_path / "x.tar"
        path.write_bytes(content)
        with refused_or_whole(path):
            for name, text in contents(path, lambda name: name.endswith(".txt"), 10_000):
                assert name.endswith(".txt")
                assert len(text) <= 10_000


def test_nothing_of_an_archive_lands_on_the_disk(tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("../escape.txt", "/tmp/escape.txt", "in/side.txt"):
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"hi"))
        link = tarfile.TarInfo("in/link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    (tmp_path / "x.tar").write_bytes(out.getvalue())
    found = dict(contents(tmp_path / "x.tar", lambda name: name == "side.txt", 10))
    assert found == {"side.txt": b"hi"}
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]
    with pytest.raises(PersistorError, match="more than 1 bytes"):
        list(contents(tmp_path / "x.tar", lambda name: name == "side.txt", 1))


FEATURES = {
    "x": np.ones((3, 101, 13), np.float16),
    "label": np.array([0, 1, 1], np.uint8),
    "words": np.array(["no", "yes"]),
}


@FUZZ
@given(damaged(npz(**FEATURES)))
def test_damaged_features(tmp_path, content):
    path = tmp_path / "speech_commands_v0.01_mfcc13.npz"
    path.write_bytes(content)
    with refused_or_whole(path):
        clips = speech._checked(path, read_arrays(path))
        assert clips.features.shape == (3, 101, 13)
        assert clips.labels.max() < len(clips.words)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"x": np.ones((3, 100, 13), np.float16)}, "expected float16"),
        ({"x": np.full((3, 101, 13), np.nan, np.float16)}, "not finite"),
        ({"x": np.ones((3, 101, 13))}, "expected float16"),
        ({"label": np.array([0, 1, 2], np.uint8)}, "without a word"),
        ({"label": np.array([0.5, 1, 1])}, "bytes"),
        ({"words": np.array([object()])}, "not a complete"),
        ({"words": np.zeros(2)}, "text"),
        ({"split": np.zeros(2, np.uint8)}, "byte for every label"),
        ({"split": np.zeros(3)}, "byte for every label"),
    ],
)
def test_features_that_are_none(wrong, says, folder):
    lay(folder, {"speech_commands_v0.01_mfcc13.npz": npz(**{**FEATURES, **wrong})})
    with pytest.raises(PersistorError, match=says):
        speech.load()


def test_a_version_is_known_by_its_name(folder):
    assert speech.version() == "0.02"
    lay(folder, {"speech_commands_v0.01_mfcc13.npz": npz(**FEATURES)})
    assert speech.version() == "0.01"
    assert speech.load().words == ("no", "yes")
    lay(folder, {"speech_commands_v0.02_mfcc13.npz": npz(**FEATURES)})
    assert speech.version() == "0.02"


def test_what_is_prepared_is_made_once(folder):
    calls = []

    def make():
        calls.append(1)
        return {"a": np.arange(3)}

    for _ in range(2):
        np.testing.assert_array_equal(read_arrays(prepared("key", make))["a"], [0, 1, 2])
    assert calls == [1]
    assert os.listdir(folder / "prepared") == ["key.npz"]


# Downloads


class Publisher(http.server.BaseHTTPRequestHandler):
    """Serves one file, with ranges; may hang up early, or not know ranges."""

    content = bytes(range(256)) * 4_000
    hang_up_after: int | None = None
    knows_ranges = True
    asked: list

    def do_GET(self):
        begin = 0
        wanted = self.headers.get("Range")
        type(self).asked.append(wanted)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        if wanted and self.knows_ranges:
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            if begin >= len(self.content):
                self.send_error(416)
                return
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(self.content) - begin))
        self.end_headers()
        self.wfile.write(self.content[begin:][: self.hang_up_after])

    def log_message(self, *_):
        pass


@pytest.fixture
def publisher(folder):
    class Ours(Publisher):
        asked = []  # noqa: RUF012

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ours)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Ours, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def set_of(url, content=Publisher.content):
    checksum = "sha256:" + hashlib.sha256(content).hexdigest()
    return DataSet("thing", "a thing", ((File("file.bin", url, checksum, len(content)),),))


def test_a_download_goes_on_where_it_stopped(publisher, folder):
    handler, url = publisher
    data = set_of(f"{url}/file.bin")
    heard = []
    handler.hang_up_after = 300_000
    with pytest.raises(PersistorError, match=r"file\.bin cannot be fetched from .* put it into"):
        fetch(data)
    assert data.found() == []
    handler.hang_up_after = None
    (path,) = fetch(data, lambda done, total: heard.append((done, total)))
    assert path.read_bytes() == handler.content
    assert handler.asked == [None, "bytes=300000-"]
    assert heard[-1] == (len(handler.content), len(handler.content))
    assert heard[0][0] > 300_000
    assert os.listdir(folder / "thing") == ["file.bin"]
    fetch(data)
    assert len(handler.asked) == 2


def test_two_processes_do_not_write_one_download(publisher, folder):
    _, url = publisher
    lay(folder, {"thing/file.bin.part": b""})
    with (folder / "thing" / "file.bin.part").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PersistorError, match="another process"):
            fetch(set_of(f"{url}/file.bin"))
    assert fetch(set_of(f"{url}/file.bin"))


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_beginning_that_is_none_is_thrown_away(knows_ranges, publisher, folder):
    handler, url = publisher
    handler.knows_ranges = knows_ranges
    data = set_of(f"{url}/file.bin")
    lay(folder, {"thing/file.bin.part": b"x" * (len(handler.content) + 5)})
    (path,) = fetch(data)
    assert path.read_bytes() == handler.content


def test_something_else_is_not_kept(publisher, folder):
    _, url = publisher
    data = set_of(f"{url}/file.bin", Publisher.content[:-1] + b"!")
    with pytest.raises(PersistorError, match="did not send") as error:
        fetch(data)
    assert data.files[0].checksum in str(error.value)
    assert os.listdir(folder / "thing") == []


def test_no_network_and_no_such_file(publisher, folder):
    _, url = publisher
    for address in (f"{url}/other.bin", "http://127.0.0.1:9/file.bin"):
        with pytest.raises(PersistorError) as error:
            fetch(set_of(address))
        assert address in str(error.value)
        assert str(folder / "thing") in str(error.value)


def test_what_has_no_checksum_is_not_fetched(folder):
    with pytest.raises(PersistorError, match="download it from http"):
        fetch(DATASETS["shakespeare"])


def test_makers_cover_the_registry():
    assert set(MAKERS) == set(DATASETS)
    assert mnist.MNIST.slice("test") == slice(60_000, 70_000)
