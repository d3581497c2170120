"""What random programs are made of, so that a pass finds its kind of work in most of them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

WARPS = {"simt-1": 1, "simt-2": 2, "simt-4": 4, "simt-8": 8}
"""Warps of a block, by what programs are checked by when they run on the backend's threads."""
GPU = {"gpu-1": 1, "gpu-4": 4, "gpu-8": 8}
"""The same, when they run on a GPU."""
SIMT = ("simt", *WARPS)

_USUAL = 4.0
"""How much more often anything else is drawn than one given elementwise op."""

_OFTEN = {"guarded": 16.0, "promise": 8.0, "update": 8.0, "write-only": 8.0, "read-only": 8.0}
"""What is drawn more often than that: it has many cases, each with every other statement."""
_ONLY_FAVOURED = frozenset({"taps", "passed"})
"""What one pass alone has work in."""


@attrs.frozen(eq=False)
class Policy:
    """Relative weights of statements by name (`tileir.testing.names`): 1 for an elementwise op
    and 4 to 16 for anything else where `favoured` says nothing, 0 for `taps` and `passed`. `undef`
    is the share of programs whose values may have undefined lanes, `length` the usual number of
    statements, `pipeline` how a campaign runs the pass, "" by its name."""

    favoured: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    undef: float = 0.0
    exact: bool = False
    """Whether only ops whose results have one value take part: for what computes functions in its
    own way, or sums in another order."""
    length: int = 20
    pipeline: str = ""
    before: str = ""
    """The pipeline whose output the pass expects."""
    detours: bool = False
    """Whether needless conversions between layouts are put in
    (`tileir.testing.redundant_conversions`)."""
    stage: str | None = None
    """The module's stage, for passes of the backend."""
    numbers: tuple[str, ...] = ("ieee",)
    """What machines of numbers tell meanings by, all but the first for a fourth of the programs;
    `ring` for passes that compute no literals."""
    idempotent: bool = False
    """Whether a second run changes nothing."""

    def weight(self, name: str, other: bool) -> float:
        """Of the statement `name`, which is one elementwise op or some `other`."""
        others = 0.0 if name in _ONLY_FAVOURED else _OFTEN.get(name, _USUAL)
        usual = others if other else 1.0
        return self.favoured.get(name, usual)


PLAIN = Policy()
"""All alike, everything defined."""

_UNDEF = 0.3
_BOTH = ("ieee", "ring")
_LAID_OUT: dict[str, float] = {
    "call": 0, "load-block": 0, "store-block": 0, "read-only": 0, "write-only": 0,
}  # fmt: skip
"""What `assign-layouts` leaves to passes before it: calls, and accesses through descriptors."""
_EXECUTED = Policy({"dot": 0, "product-loop": 0, "poison": 0}, exact=True, length=12)
_POLICIES: dict[str, Policy] = {
    "cse": Policy(undef=_UNDEF, numbers=_BOTH, idempotent=True),
    "dce": Policy(undef=_UNDEF, numbers=_BOTH, idempotent=True),
    "fold": Policy({"insert": 12, "loop": 8, "choice": 8}, _UNDEF, idempotent=True),
    "inline": Policy({"call": 16, "combine": 8}, _UNDEF, numbers=_BOTH, idempotent=True),
    "licm": Policy(
        {"loop": 24, "close": 8, "call": 2, "escape": 8}, _UNDEF, numbers=_BOTH, idempotent=True
    ),
    "lower-predicates": Policy(
        {"predicated": 24, "reduce-under": 12, "scan-under": 8}, _UNDEF, idempotent=True
    ),
    "rotate": Policy(
        {"loop": 24, "close": 8, "choice": 8, "escape": 12}, _UNDEF, numbers=_BOTH, idempotent=True
    ),
    "simplify-cfg": Policy(
        {"loop": 10, "choice": 16, "escape": 12, "close": 12}, _UNDEF, idempotent=True
    ),
    "peephole": Policy(undef=_UNDEF, idempotent=True),
    "simplify": Policy(undef=_UNDEF, idempotent=True),
    "prefetch-loads": Policy(
        {"walk": 24, "product-loop": 8, "count": 1, "store": 2},
        _UNDEF,
        numbers=_BOTH,
        idempotent=True,
    ),
    "async-pipeline": Policy(
        {"product-loop": 24, "walk": 8, "count": 1}, stage="pipelined", idempotent=True
    ),
    "scalarize-pointer-steps": Policy(
        {"walk": 24, "product-loop": 8, "count": 1}, _UNDEF, idempotent=True
    ),
    "rematerialize": Policy({"product-loop": 32, "range": 8, "store": 8}, idempotent=True),
    "strip-mine": Policy(
        {"wide": 32, "walk": 8}, exact=True, pipeline="strip-mine{warps=1,limit=2,chunk=1}"
    ),
    "assign-layouts": Policy(_LAID_OUT, _UNDEF, stage="layouts"),
    "remove-conversions": Policy(
        _LAID_OUT, _UNDEF, stage="layouts", before="assign-layouts", detours=True, idempotent=True
    ),
    "conditional-row-max": Policy(
        {"passed": 60, **_LAID_OUT},
        _UNDEF,
        stage="layouts",
        before="assign-layouts",
        idempotent=True,
    ),
    "allocate-shared": Policy(
        _LAID_OUT, _UNDEF, stage="layouts", before="assign-layouts", idempotent=True
    ),
    "insert-barriers": Policy(
        _LAID_OUT,
        _UNDEF,
        stage="allocated",
        before="assign-layouts,allocate-shared",
        idempotent=True,
    ),
    "stage-halo": Policy({"taps": 40}, _UNDEF, stage="halo", idempotent=True),
    "version-full-tiles": Policy({"bounded": 32}, _UNDEF, numbers=_BOTH),
    **dict.fromkeys((*SIMT, *GPU), Policy({"poison": 0}, exact=True, length=12)),
    "cpu": _EXECUTED,
}


def policy_of(name: str) -> Policy:
    """What programs for the pass `name` are made of (`simt`: for the backend's threads)."""
    return _POLICIES.get(name, Policy(undef=_UNDEF))
