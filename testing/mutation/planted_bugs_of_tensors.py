"""Planted bugs of reductions, full tiles, tensor maps and literals."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, bugs_in

_REDUCTION_LAYOUTS = ("tests/backend/test_reduction_layouts.py",)
_FULL_TILE_MASKS = ("tests/backend/test_full_tile_masks.py",)
_ATOMIC_ACCUMULATION = (
    "tests/backend/warp_specialize/test_atomic_accumulation.py",
    "tests/backend/test_described_orders.py",
    "tests/backend/warp_specialize/test_descriptions.py",
)
_DELINEARIZE = ("tests/backend/test_delinearize.py",)
_WRAPPED_INDICES = ("tests/backend/test_wrapped_indices.py",)
_INTEGER_LITERALS = ("tests/textual/test_integer_literals.py", "tests/textual/test_literals.py")
_LAUNCH_PROGRAM = ("tests/runtime/test_launch_program.py",)

BUGS_OF_TENSORS: tuple[Bug, ...] = (
    *bugs_in("backend/codegen/emit/reduction.py", _REDUCTION_LAYOUTS,
        ("halves are exchanged in the order in which they were split",
         "for mask in reversed(split):", "for mask in split:"),
    ),
    *bugs_in("backend/layouts/reduction_plan.py", _REDUCTION_LAYOUTS,
        ("no shared memory for flags where the layout has padding",
         "    if isinstance(op.combiner, str) and may_have_padding(op):",
         "    if isinstance(op.combiner, str) and op.predicate is not None:"),
        ("a predicate leaves no padding",
         "return op.predicate is not None or op.values[0].type.layout.extents != "
         "op.values[0].type.shape",
         "return bool(op.values[0].type.layout.extents != op.values[0].type.shape)"),
    ),
    *bugs_in("backend/transforms/full_tiles.py", _FULL_TILE_MASKS,
        ("the opposite of a comparison counts as the comparison",
         'if op.mnemonic != "icmp" or op.results[0] is not mask:', 'if op.mnemonic != "icmp":'),
        ("a condition may depend on ops between the accesses",
         "positions.get(v, -1) >= group[0] for v", "positions.get(v, -1) >= index for v"),
        ("only the bound of an unsigned comparison must be nonnegative",
         "if min(bounds.of(v)[0] for v in (left, right)) < 0:", "if bounds.of(right)[0] < 0:"),
    ),
    *bugs_in("backend/tma/infer_descriptors.py", _ATOMIC_ACCUMULATION,
        ("readers of what an atomic addition writes are allowed",
         " or alias_analysis.may_change(o, op) or _may_read(function, o, op)",
         " or alias_analysis.may_change(o, op)"),
        ("a load is transposed by the order of its access",
         "order = tuple(access.order.index(d) for d in range(len(kind.shape)))",
         "order = tuple(access.order)"),
        ("what is subtracted from an extent is at least 1",
         "yield symbol, int(not start and coefficient > 0)", "yield symbol, int(not start)"),
        ("rows are along the last dimension of the tile",
         "if kind.shape[access.order[-1]] * element.bytes % _CHUNK:",
         "if kind.shape[-1] * element.bytes % _CHUNK:"),
    ),
    *bugs_in("backend/tma/nonnegative_starts.py", _DELINEARIZE,
        ("a base with an offset needs no check",
         "return decreases or bool(forms and access.offset.terms)", "return decreases"),
    ),
    *bugs_in("backend/tma/modulo_to_mask.py", _WRAPPED_INDICES,
        ("any value that is selected below the bound is the index",
         "test.predicate_ is IntegerPredicate.SLT and test.lhs is op.then",
         "test.predicate_ is IntegerPredicate.SLT"),
        ("an index of -n passes the check",
         "predicate_=IntegerPredicate.SGT)]", "predicate_=IntegerPredicate.SGE)]"),
    ),
    *bugs_in("textual/literals.py", _INTEGER_LITERALS,
        ("a hexadecimal literal may have one bit more",
         "int(digits, 16) < 1 << width", "int(digits, 16) <= 1 << width"),
        ("integers have at most 19 digits", "len(digits) > 20", "len(digits) > 19"),
    ),
    *bugs_in("backend/tma/delinearize.py", _DELINEARIZE,
        ("terms with positive coefficients are nonnegative",
         "if coefficient > 0 and all(self._minimum(s) >= 0 for s in monomial)",
         "if coefficient > 0"),
        ("a stride divides every coefficient",
         "if (symbols or is_varying) and not coefficient % size and _contains",
         "if (symbols or is_varying) and _contains"),
    ),
    *bugs_in("backend/tma/host_plan.py", _LAUNCH_PROGRAM,
        ("strides may be 0",
         "all(0 < s < 1 << 40 and s % ALIGNMENT == 0 for s in moved)",
         "all(s < 1 << 40 and s % ALIGNMENT == 0 for s in moved)"),
        ("ends of rows are aligned as their starts",
         "steps = [*strides[:-1], extents[-1]] if", "steps = [*strides[:-1]] if"),
        ("extents may be 0",
         "all(0 < n <= 1 << 32 for n in extents)", "all(n <= 1 << 32 for n in extents)"),
    ),
)  # fmt: skip
