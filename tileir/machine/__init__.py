"""Machines of numbers: what `Op.evaluate` runs on.

`Machine` computes as hardware does; `ring.RingMachine` replaces floats by residues modulo a prime,
where every law of algebra is exact.
"""

from tileir.machine.ieee import Machine
from tileir.machine.tensor import Tensor, constant, dtype_of, undef

__all__ = ["Machine", "Tensor", "constant", "dtype_of", "undef"]
