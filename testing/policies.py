"""The weights of statements in random programs, so that a pass applies to most of them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

WARPS = {"simt-1": 1, "simt-2": 2, "simt-4": 4, "simt-8": 8}
"""Warps per block on the SIMT simulator, by the name of the target."""
GPU = {"gpu-1": 1, "gpu-4": 4, "gpu-8": 8}
"""Warps per block on a GPU, by the name of the target."""
SIMT = ("simt", *WARPS)

_USUAL = 4.0
"""The weight of other statements, relative to one elementwise op."""

_OFTEN = {"guarded": 16.0, "promise": 8.0, "update": 8.0, "write-only": 8.0, "read-only": 8.0}
"""Statements of larger weight: they have many cases, each with every other statement."""
_ONLY_FAVOURED = frozenset({"taps", "row-max"})
"""Statements for one pass alone."""


@attrs.frozen(eq=False)
class GenerationPolicy:
    """The policy by which programs are generated.

    Each statement has a relative weight by its name (`tileir.testing.names`): 1 for an elementwise
    op, 0 for `taps` and `row-max`, and 4 to 16 for all others, unless `favoured` states one.
    `undef` is the share of programs whose values may have undefined lanes. `length` is the usual
    number of statements. `pipeline` is the pipeline that a campaign runs; "" is the pass itself.
    """

    favoured: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    undef: float = 0.0
    exact: bool = False
    """Whether only ops with a single correct result take part: for executors that compute functions
    in their own way, or add in another order."""
    length: int = 20
    pipeline: str = ""
    before: str = ""
    """The pipeline whose output the pass expects."""
    detours: bool = False
    """Whether redundant layout conversions are inserted
    (`tileir.testing.redundant_conversions`)."""
    stage: str | None = None
    """The module's stage, for passes of the backend."""
    numbers: tuple[str, ...] = ("ieee",)
    """Number systems of the interpreter that results are compared in, all but the first for a
    fourth of the programs; `ring` for passes that do not fold constants."""
    idempotent: bool = False
    """Whether a second run changes nothing."""

    def weight(self, name: str, other: bool) -> float:
        """Return the weight of the statement `name`. `other` states whether it is not an
        elementwise op."""
        default = 0.0 if name in _ONLY_FAVOURED else _OFTEN.get(name, _USUAL)
        usual = default if other else 1.0
        return self.favoured.get(name, usual)


PLAIN = GenerationPolicy()
"""Equal weights, everything defined."""

_UNDEF = 0.3
_BOTH = ("ieee", "ring")
_LAID_OUT: dict[str, float] = {
    "call": 0, "load-block": 0, "store-block": 0, "read-only": 0, "write-only": 0,
}  # fmt: skip
"""Weights for passes after `assign-layouts`, which takes no calls and no accesses through
descriptors."""
_EXECUTED = GenerationPolicy({"dot": 0, "matmul-loop": 0, "poison": 0}, exact=True, length=12)
_POLICIES: dict[str, GenerationPolicy] = {
    "cse": GenerationPolicy(undef=_UNDEF, numbers=_BOTH, idempotent=True),
    "dce": GenerationPolicy(undef=_UNDEF, numbers=_BOTH, idempotent=True),
    "fold": GenerationPolicy({"insert": 12, "loop": 8, "choice": 8}, _UNDEF, idempotent=True),
    "inline": GenerationPolicy({"call": 16, "combine": 8}, _UNDEF, numbers=_BOTH, idempotent=True),
    "licm": GenerationPolicy(
        {"loop": 24, "close": 8, "call": 2, "escape": 8}, _UNDEF, numbers=_BOTH, idempotent=True
    ),
    "lower-predicates": GenerationPolicy(
        {"predicated": 24, "reduce-under": 12, "scan-under": 8}, _UNDEF, idempotent=True
    ),
    "rotate": GenerationPolicy(
        {"loop": 24, "close": 8, "choice": 8, "escape": 12}, _UNDEF, numbers=_BOTH, idempotent=True
    ),
    "simplify-cfg": GenerationPolicy(
        {"loop": 10, "choice": 16, "escape": 12, "close": 12}, _UNDEF, idempotent=True
    ),
    "peephole": GenerationPolicy(undef=_UNDEF, idempotent=True),
    "simplify": GenerationPolicy(undef=_UNDEF, idempotent=True),
    "prefetch-loads": GenerationPolicy(
        {"walk": 24, "matmul-loop": 8, "count": 1, "store": 2},
        _UNDEF,
        numbers=_BOTH,
        idempotent=True,
    ),
    "async-pipeline": GenerationPolicy(
        {"matmul-loop": 24, "walk": 8, "count": 1}, stage="pipelined", idempotent=True
    ),
    "scalarize-pointer-steps": GenerationPolicy(
        {"walk": 24, "matmul-loop": 8, "count": 1}, _UNDEF, idempotent=True
    ),
    "rematerialize": GenerationPolicy({"matmul-loop": 32, "range": 8, "store": 8}, idempotent=True),
    "strip-mine": GenerationPolicy(
        {"wide": 32, "walk": 8}, exact=True, pipeline="strip-mine{warps=1,limit=2,chunk=1}"
    ),
    "assign-layouts": GenerationPolicy(_LAID_OUT, _UNDEF, stage="layouts"),
    "remove-conversions": GenerationPolicy(
        _LAID_OUT, _UNDEF, stage="layouts", before="assign-layouts", detours=True, idempotent=True
    ),
    "conditional-row-max": GenerationPolicy(
        {"row-max": 60, **_LAID_OUT},
        _UNDEF,
        stage="layouts",
        before="assign-layouts",
        idempotent=True,
    ),
    "allocate-shared": GenerationPolicy(
        _LAID_OUT, _UNDEF, stage="layouts", before="assign-layouts", idempotent=True
    ),
    "insert-barriers": GenerationPolicy(
        _LAID_OUT,
        _UNDEF,
        stage="allocated",
        before="assign-layouts,allocate-shared",
        idempotent=True,
    ),
    "stage-halo": GenerationPolicy({"taps": 40}, _UNDEF, stage="halo", idempotent=True),
    "version-full-tiles": GenerationPolicy({"bounded": 32}, _UNDEF, numbers=_BOTH),
    **dict.fromkeys((*SIMT, *GPU), GenerationPolicy({"poison": 0}, exact=True, length=12)),
    "cpu": _EXECUTED,
    "executors": _EXECUTED,
}

_OTHER = GenerationPolicy(undef=_UNDEF)
"""The policy of passes that need no special programs. The generator stores the weights of each
policy."""


def policy_of(name: str) -> GenerationPolicy:
    """Return the policy of programs for the pass `name`, or for the SIMT simulator (`simt`)."""
    return _POLICIES.get(name, _OTHER)
