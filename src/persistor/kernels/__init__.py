"""Native kernels for CPUs: what was compiled at installation, and the layers that use it directly.

`recurrence.h` and `pointwise.h` are the mathematics on vectors of eight floats (`vectors.h`);
`unroll.cc` and `pointwise.cc` bind it to XLA with `calls.h`. `loader` finds and loads what was
compiled; `pointwise` is the layer norm and the gated linear unit as differentiable functions. The
recurrence as one is `persistor.recurrence.native`.
"""

from persistor.kernels.loader import library, refusal
from persistor.kernels.pointwise import glu, layer_norm

__all__ = ["glu", "layer_norm", "library", "refusal"]
