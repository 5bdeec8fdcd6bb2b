"""A model as ONNX: graphs of standard operators, and the proof that they compute the same."""

from persistor.export.onnx.network import SEQUENCE, STEP, graphs
from persistor.export.onnx.proof import Agreement, prove

__all__ = ["SEQUENCE", "STEP", "Agreement", "graphs", "prove"]
