"""All error codes: titles, and the texts of `tileir explain`.

One file per range: 00xx text, 01xx ops, 02xx structure, 03xx symbols and linking, 04xx versions,
05xx interpreter, 06xx passes, 07xx backend, 08xx builder, 09xx tools,
10xx frontends, 11xx tuning, 12xx Decoupled Triton, 13xx Tile, 14xx Tensor Comprehensions,
15xx tensor expressions, 16xx limits.
"""

from __future__ import annotations

from tileir.error_codes import (
    backend,
    builder,
    decoupled,
    frontends,
    interpreter,
    limits,
    ops,
    passes,
    structure,
    symbols,
    te,
    tensor_comprehensions,
    text,
    tile,
    tools,
    tuning,
    versions,
)

_RANGES = (
    text, ops, structure, symbols, versions, interpreter, passes, backend, builder, tools,
    frontends, tuning, decoupled, tile, tensor_comprehensions, te, limits,
)  # fmt: skip


CODES: dict[str, tuple[str, str]] = {
    code: entry for part in _RANGES for code, entry in part.CODES.items()
}
"""Code to (title, explanation)."""
