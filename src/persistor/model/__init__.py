"""The backbone network of the paper's experiments."""

from persistor.model.architecture import ARCHITECTURES, PAPER, Architecture
from persistor.model.backbone import Backbone, Memory
from persistor.model.block import Block
from persistor.model.start import poised
from persistor.nn.pooling import Pooling
from persistor.nn.positions import Encoding

__all__ = [
    "ARCHITECTURES",
    "PAPER",
    "Architecture",
    "Backbone",
    "Block",
    "Encoding",
    "Memory",
    "Pooling",
    "poised",
]
