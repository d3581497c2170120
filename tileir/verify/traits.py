"""Properties of an op's class for the verifier."""

from __future__ import annotations

import functools

from tileir.op import Effects, FieldKind, Op


class Traits:
    """`terminates`: ends a block. `names_symbols`: has a field that names a function or global.
    `merges`: merges predicated values. `plain`: neither of the last two."""

    def __init__(self, cls: type[Op]) -> None:
        forms = {f.attribute.form for f in cls.fields(FieldKind.ATTRIBUTE) if f.attribute}
        symbols = bool(cls.fields(FieldKind.SYMBOL))
        self.terminates = Effects.CONTROL in cls.effects_
        self.names_symbols = symbols or not forms.isdisjoint(("symbol", "combiner"))
        self.merges = cls.mnemonic == "psi"
        self.plain = not (self.names_symbols or self.merges)


@functools.cache
def traits(cls: type[Op]) -> Traits:
    """The traits of `cls`."""
    return Traits(cls)
