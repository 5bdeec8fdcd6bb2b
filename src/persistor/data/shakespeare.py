"""Shakespeare's complete works as 42 plain texts, and the excerpt known as tinyshakespeare."""

from __future__ import annotations

import hashlib

from persistor._tools.errors import PersistorError
from persistor._tools.files import reading
from persistor.data.dataset import DataSet, File

_FROM = "http://www.cs.usyd.edu.au/~matty/Shakespeare/"
WORKS = (
    "1kinghenryiv 1kinghenryvi 2kinghenryiv 2kinghenryvi 3kinghenryvi allswellthatendswell "
    "antonyandcleopatra asyoulikeit comedyoferrors coriolanus cymbeline hamlet juliuscaesar "
    "kinghenryv kinghenryviii kingjohn kinglear kingrichardii kingrichardiii loverscomplaint "
    "loveslabourslost macbeth measureforemeasure merchantofvenice merrywivesofwindsor "
    "midsummersnightsdream muchadoaboutnothing othello periclesprinceoftyre rapeoflucrece "
    "romeoandjuliet sonnets tamingoftheshrew tempest timonofathens titusandronicus "
    "troilusandcressida twelfthnight twogentlemenofverona various venusandadonis winterstale "
)
SHAKESPEARE = DataSet(
    name="shakespeare",
    summary="Shakespeare's complete works: 42 texts, 5.3 million characters",
    forms=(tuple(File(f"{name}.txt", _FROM) for name in WORKS.split()),),
    places=("shakespeare/shakespeare",),
    joined="1f921c97a441b8b36b6474ee8284d918d9fe1da695590b8866b229d448ffdb51",  # computed here
)
ALPHABET = bytes(
    sorted(b"\t\n !$&'(),-.0123456789:;?[]|ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
)
TINY = DataSet(
    name="tinyshakespeare",
    summary="an excerpt of Shakespeare, 1.1 million characters",
    forms=(
        (
            File(
                "tinyshakespeare.txt",
                "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                1_115_394,
            ),
        ),
    ),
    places=("shakespeare",),
)


def load(data: DataSet) -> bytes:
    """The text of a data set: its files one after another, sorted by name."""
    texts = []
    for path in data.locate():
        with reading(path) as file:
            texts.append(file.read())
    text = b"".join(texts)
    digest = hashlib.sha256(text).hexdigest()
    if data.joined and digest != data.joined:
        raise PersistorError(
            f"{data.found()[0][1].parent} holds other texts: joined in order of their names, their "
            f"sha256 is {digest}, expected {data.joined}; get them again from {_FROM}"
        )
    return text
