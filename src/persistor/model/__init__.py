"""The backbone of the paper's experiments."""

from persistor.model.backbone import Backbone, Memory, Pooling
from persistor.model.block import Block
from persistor.model.positions import Encoding
from persistor.model.start import poised

__all__ = ["Backbone", "Block", "Encoding", "Memory", "Pooling", "poised"]
