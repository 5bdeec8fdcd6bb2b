"""The backbone network of the paper's experiments."""

from persistor.model.architecture import ARCHITECTURES, PAPER, ROBUST, Architecture
from persistor.model.backbone import Backbone, Memory
from persistor.model.block import Block
from persistor.nn.pooling import Pooling
from persistor.nn.positions import Encoding

__all__ = [
    "ARCHITECTURES",
    "PAPER",
    "ROBUST",
    "Architecture",
    "Backbone",
    "Block",
    "Encoding",
    "Memory",
    "Pooling",
]
