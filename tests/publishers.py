"""Data sets made up here, in their publishers' form: every parser runs on every machine."""

import dataclasses
import gzip
import hashlib
import io
import pickle
import tarfile

import numpy as np

from persistor.data import DATASETS, cifar10, pathfinder_images, shakespeare, speech
from persistor.data.dataset import SPLITS

SHARE = 10  # IMDb and Pathfinder are so many times smaller here


def idx(array):
    """An array of bytes as an IDX file, gzipped."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes(), compresslevel=1)


def tar(files, packed=True):
    """Files as an archive."""
    out = io.BytesIO()
    how = {"mode": "w:gz", "compresslevel": 1} if packed else {"mode": "w"}
    with tarfile.open(fileobj=out, **how) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def make_mnist():
    """Strokes instead of digits: the first row of pixels tells the class."""
    rng = np.random.default_rng(0)
    files = {}
    for part, n in (("train", 60_000), ("t10k", 10_000)):
        digits = rng.integers(0, 10, n, dtype=np.uint8)
        images = np.zeros((n, 28, 28), np.uint8)
        images[np.arange(n), 0, digits] = 255
        images[:, 14] = rng.integers(0, 256, (n, 28), dtype=np.uint8)
        files[f"{part}-images-idx3-ubyte.gz"] = idx(images)
        files[f"{part}-labels-idx1-ubyte.gz"] = idx(digits)
    return files


def cifar_batches(form, images=10_000):
    """The six batches of the binary or the Python version."""
    rng = np.random.default_rng(1)
    files = {}
    for name in cifar10.BATCHES:
        classes = rng.integers(0, 10, images, dtype=np.uint8)
        pixels = np.zeros((images, 3, 1024), np.uint8)
        pixels[:, :, :8] = rng.integers(0, 256, (images, 3, 8), dtype=np.uint8)
        rows = pixels.reshape(images, -1)
        if form == "bin":
            content = np.concatenate([classes[:, None], rows], 1).tobytes()
            files[f"cifar-10-batches-bin/{name}.bin"] = content
        else:
            batch = {b"data": rows, b"labels": classes.tolist(), b"filenames": [b"x.png"] * images}
            files[f"cifar-10-batches-py/{name}"] = pickle.dumps(batch, protocol=2)
    return files


def make_cifar10():
    return {"cifar-10-binary.tar.gz": tar(cifar_batches("bin"))}


def reviews(each):
    """Reviews of many lengths, and others that do not count."""
    files = {"aclImdb/README": b"not a review", "aclImdb/train/unsup/0_0.txt": b"not labelled"}
    for part in ("train", "test"):
        for kind in ("neg", "pos"):
            for i in range(each):
                text = f"{part} {i} {kind} <br />".encode() * (1 + i % 300)
                files[f"aclImdb/{part}/{kind}/{i}_{7 if kind == 'pos' else 2}.txt"] = text
    return files


def make_imdb():
    return {"aclImdb_v1.tar.gz": tar(reviews(sum(sizes("imdb")) // 4))}


def make_listops():
    rng = np.random.default_rng(2)
    files = {}
    for file, size in zip(DATASETS["listops"].files, sizes("listops"), strict=True):
        digits = rng.integers(0, 10, (size, 3)).tolist()
        lines = [f"( ( ( ( [MAX {a} ) {b} ) {c} ) ] )\t{max(a, b, c)}\n" for a, b, c in digits]
        files[f"listops/{file.name}"] = ("Source\tTarget\n" + "".join(lines)).encode()
    return files


def make_pathfinder():
    rng = np.random.default_rng(6)
    files = {}
    for name, size in zip(SPLITS, sizes("pathfinder"), strict=True):
        records = np.zeros(size, pathfinder_images.RECORD)
        records["label"] = rng.integers(0, 2, size)
        records["image"][:, 3] = rng.integers(0, 256, (size, 32))
        out = io.BytesIO()
        np.save(out, records)
        files[f"pathfinder/pathfinder32_{name}.npy"] = out.getvalue()
    return files


def make_shakespeare():
    rng = np.random.default_rng(3)
    alphabet = np.frombuffer(shakespeare.ALPHABET, np.uint8)
    works = shakespeare.WORKS.split()
    return {f"shakespeare/{name}.txt": rng.choice(alphabet, 900).tobytes() for name in works}


def make_tiny():
    rng = np.random.default_rng(4)
    alphabet = np.frombuffer(shakespeare.ALPHABET, np.uint8)
    return {"tinyshakespeare.txt": rng.choice(alphabet, 40_000).tobytes()}


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


SPOKEN = (
    "backward bed bird cat dog down eight five follow forward four go happy house learn left "
    "marvin nine no off on one right seven sheila six stop three tree two up visual wow yes zero"
)
WORDS = [*SPOKEN.split(), speech.NOISE]


def make_speech(each=120):
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(len(WORDS), dtype=np.uint8), each)
    x = rng.normal(size=(len(labels), 101, 13)).astype(np.float16) + labels[:, None, None]
    split = np.tile(np.repeat(np.arange(3, dtype=np.uint8), [each - 40, 20, 20]), len(WORDS))
    features = npz(x=x.astype(np.float16), label=labels, words=np.array(WORDS), split=split)
    return {"speech_commands_v0.02_mfcc13.npz": features}


MAKERS = {
    "mnist": make_mnist,
    "cifar10": make_cifar10,
    "imdb": make_imdb,
    "listops": make_listops,
    "pathfinder": make_pathfinder,
    "shakespeare": make_shakespeare,
    "tinyshakespeare": make_tiny,
    "speech-commands": make_speech,
}
SMALLER = ("imdb", "pathfinder")


def sizes(name):
    """The examples of each split of what is made up here."""
    counts = DATASETS[name].sizes
    return tuple(n // SHARE for n in counts) if name in SMALLER else counts


def publish(folder, name):
    """Put a made-up data set into a folder; the set whose checksums and sizes are those."""
    files = MAKERS[name]()
    for file, content in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    digests = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    forms = tuple(
        tuple(
            dataclasses.replace(f, checksum=f"sha256:{digests[f.name]}")
            if f.checksum and f.name in files
            else f
            for f in form
        )
        for form in DATASETS[name].forms
    )
    whole = hashlib.sha256(b"".join(files[file] for file in sorted(files))).hexdigest()
    joined = whole if DATASETS[name].joined else ""
    return dataclasses.replace(DATASETS[name], forms=forms, joined=joined, sizes=sizes(name))


def publish_all(folder):
    """Every data set there is, by its name."""
    assert set(MAKERS) == set(DATASETS)
    return {name: publish(folder, name) for name in DATASETS}


def on_data(kind, data):
    """A task, but for the data set that it reads."""
    return type(kind.__name__, (kind,), {"source": data, "name": kind.name})
