"""Properties of an op's class for the verifier."""

from __future__ import annotations

import functools

import attrs

from tileir.op import Effects, FieldKind, Op


@attrs.frozen(eq=False, weakref_slot=False, repr=False)
class Traits:
    """`terminates`: ends a block. `names_symbols`: has a field that names a function or global.
    `merges`: merges predicated values. `plain`: neither of the last two."""

    terminates: bool
    names_symbols: bool
    merges: bool
    plain: bool


@functools.cache
def traits(cls: type[Op]) -> Traits:
    """The traits of `cls`."""
    forms = {f.attribute.form for f in cls.fields(FieldKind.ATTRIBUTE) if f.attribute}
    names = bool(cls.fields(FieldKind.SYMBOL)) or not forms.isdisjoint(("symbol", "combiner"))
    merges = cls.mnemonic == "psi"
    return Traits(Effects.CONTROL in cls.effects_, names, merges, not (names or merges))
