"""Native kernels for CPUs: what was compiled at installation, and the layers that use it directly.

`recurrence.h`, `lru_layer.h`, `pointwise.h` and `adamw.h` are the mathematics on vectors of floats
(`vectors.h`); the `.cc` file beside each (`unroll.cc` for the recurrence) binds it to XLA with
`calls.h`. `loader` finds and loads what was compiled, and `proof` calls each kernel once to see
that it works here. `engine` is the choice between native code and plain JAX, and `derivatives`
makes native code differentiable in every way; `pointwise` are the layer norm and the gated linear
unit, `adamw` is the optimiser, `threefry` draws random words. The recurrence is
`persistor.recurrence.native`, the layer `persistor.recurrence.lru_layer`.
"""

from persistor.kernels.adamw import AdamW
from persistor.kernels.loader import library, refusal
from persistor.kernels.pointwise import glu, layer_norm

__all__ = ["AdamW", "glu", "layer_norm", "library", "refusal"]
