"""The backbone of the paper's experiments."""

from persistor.model.backbone import Backbone, Memory, Pooling
from persistor.model.block import Block

__all__ = ["Backbone", "Block", "Memory", "Pooling"]
