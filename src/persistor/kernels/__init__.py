"""The native engine: gate, recurrence and gradient in one pass on a CPU.

`recurrence.h` is the mathematics, `unroll.cc` binds it to XLA, `loader` finds and loads what was
compiled at installation, `fused` is the differentiable function on top.
"""

from persistor.kernels.fused import fused_unroll
from persistor.kernels.loader import library, refusal

__all__ = ["fused_unroll", "library", "refusal"]
