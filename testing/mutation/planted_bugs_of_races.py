"""Planted bugs of reductions, hazards, race detection, ranges, full tiles and access counts."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, bugs_in

BUGS_OF_RACES: tuple[Bug, ...] = (
    *bugs_in("backend/codegen/combiners.py", ("tests/backend/test_combiners.py",),
        ("the minimum of a padded row of NaNs is infinity",
         '"fminimum": float("inf"), "fmaximum"',
         '"fminimum": float("inf"), "fminnum": float("inf"), "fmaximum"'),
    ),
    *bugs_in("backend/codegen/emit/reduction.py", ("tests/backend/test_reductions.py",),
        ("a reduction by a function over a padded tile, or under a predicate, "
         "loses elements that were combined with an absent one",
         'return (*flagged, thread.binary("or", I1, a[-1], b[-1]))',
         'return (*flagged, thread.binary("and", I1, a[-1], b[-1]))'),
        ("a reduction of several operands across eight or more warps mixes up "
         "values and indices: the partial results of the operands overlap in shared memory",
         "        base += align_to_16(count * warps * element.bytes)",
         "        base += align_to_16(count * element.bytes)"),
    ),
    *bugs_in("backend/layouts/reduction_plan.py", ("tests/backend/test_reduction_layouts.py",),
        ("a reduction by a function over a padded tile across warps writes its "
         "flags beyond its range of shared memory",
         "    if isinstance(op.combiner, str) and may_have_padding(op):\n"
         "        sizes.append(1)",
         "    if isinstance(op.combiner, str) and op.predicate is not None:\n"
         "        sizes.append(1)"),
        ("a reduction by a function along a later axis combines the padding of the tile",
         "op.values[0].type.layout.extents != op.values[0].type.shape",
         "op.values[0].type.layout.extents[0] != op.values[0].type.shape[0]"),
    ),
    *bugs_in("backend/shared_memory/hazards.py", (
        "tests/backend/shared_memory/test_barrier_sequences.py",
    ),
        ("a conversion within warps counts as a barrier of the block: the "
         "barrier between a store and a load of another warp around it is missing",
         "            since.wait(SyncScope.WARP if near else SyncScope.BLOCK)",
         "            since.wait(SyncScope.BLOCK)"),
        ("in kernels with more than 64 accesses through a parameter since the "
         "last barrier, stores are forgotten and barriers are missing",
         "attrs.evolve(access, roots=roots, writes=True, threads=AccessingThreads.ANY),",
         "attrs.evolve(access, roots=roots, threads=AccessingThreads.ANY),"),
    ),
    *bugs_in("backend/shared_memory/hazards.py", ("tests/backend/shared_memory/test_barriers.py",),
        ("the barrier is missing between a store through a pointer that may be "
         "one of two parameters and a load through one of them",
         "        if access.base is None or other is None:",
         "        if access.base is None:"),
    ),
    *bugs_in("backend/shared_memory/mask_extents.py", (
        "tests/backend/shared_memory/test_mask_extents.py",
    ),
        ("the barrier is missing before a load of the last element that a mask "
         "with an inclusive bound lets through",
         '_BELOW = {"slt": 0, "ult": 0, "sle": 1, "ule": 1}',
         '_BELOW = {"slt": 0, "ult": 0, "sle": 0, "ule": 0}'),
    ),
    *bugs_in("backend/shared_memory/runtime_steps.py", (
        "tests/backend/shared_memory/test_moving_accesses.py",
    ),
        ("a loop over rows whose stride is positive, but shorter than what an "
         "iteration accesses, skips its barrier",
         "Constant(I32, 2 * span - 1)",
         "Constant(I32, span)"),
    ),
    *bugs_in("backend/shared_memory/thread_conflicts.py", (
        "tests/backend/shared_memory/test_barriers.py",
    ),
        ("the barrier is missing between two accesses that share only the last "
         "element of one and the first of the other",
         "    return low, high + a.size",
         "    return low, high"),
    ),
    *bugs_in("backend/shared_memory/thread_conflicts.py", (
        "tests/backend/shared_memory/test_thread_conflicts.py",
    ),
        ("the barrier is missing in a loop that loads rows that it stored "
         "several iterations before",
         "    return spans_disjoint(a, b) and (_span(b) > _span(a)) is (step > 0)",
         "    return spans_disjoint(a, b)"),
    ),
    *bugs_in("backend/simt/counts.py", ("tests/backend/test_access_counts.py",),
        ("the ideal number of sectors counts an address once per lane that accesses it",
         "            self.ideal += -(-len(sectors) * size // SECTOR)",
         "            self.ideal += -(-len(where) * size // SECTOR)"),
    ),
    *bugs_in("backend/transforms/full_tiles.py", ("tests/backend/test_full_tile_masks.py",),
        ("under an unsigned mask whose offsets begin below zero, the masked "
         "lanes are accessed: an access out of bounds",
         "            if min(bounds.of(v)[0] for v in (left, right)) < 0:",
         "            if bounds.of(right)[0] < 0:"),
        ("accesses under the complement of a comparison access all lanes if the last one is in",
         '        if op.mnemonic != "icmp" or op.results[0] is not mask:',
         '        if op.mnemonic != "icmp":'),
    ),
    *bugs_in("backend/transforms/full_tiles.py", ("tests/backend/test_full_tiles.py",),
        ("stores under a lower-bound mask write all lanes if the last one is in",
         "facts.of(left), shape_of(left.type)) and _is_constant(\n",
         "facts.of(left), shape_of(left.type)) and _is_nondecreasing(\n"),
    ),
    *bugs_in("builder/contraction/ranges.py", ("tests/builder/contraction/test_ranges.py",),
        ("a contraction with a constant position at the first or last element "
         "has no points, and its result is all zeros",
         "    if any(not side.terms and side.constant < 0 for side in sides):",
         "    if any(not side.terms and side.constant <= 0 for side in sides):"),
        ("an index that has a lower bound of its own, and an upper one only by "
         "elimination, is refused with TIR0811",
         '        if float("-inf") == limits[index][0] or limits[index][1] == float("inf"):\n'
         "            limits[index] = _eliminate",
         '        if float("-inf") == limits[index][0] and limits[index][1] == float("inf"):\n'
         "            limits[index] = _eliminate"),
    ),
    *bugs_in("tileir/interp/access.py", ("tests/interp/test_happens_before.py",),
        ("releases and acquires of block scope order other instances: a race is not reported",
         'relaxed = not hasattr(op, "sem") or op.scope.value == "cta"',
         'relaxed = not hasattr(op, "sem")'),
    ),
    *bugs_in("tileir/interp/atomics.py", ("tests/interp/test_happens_before.py",),
        ("a compare-and-swap that fails releases: a race with what came before "
         "it is not reported",
         "            wrote[part[writes]] = True",
         "            wrote[part] = True"),
    ),
    *bugs_in("tileir/interp/clocks.py", ("tests/interp/test_races.py",),
        ("an acquire fence after two relaxed loads orders only the second one: a false race",
         "            clock.seen = result | clock.seen",
         "            clock.seen = result"),
    ),
    *bugs_in("tileir/interp/races.py", ("tests/interp/test_instances.py",),
        ("false races, and missing ones, where instances access one array in 4 and in 8 bytes",
         "return shadow, wide.reshape(-1), np.repeat(entries, times)",
         "return shadow, wide.reshape(-1), np.tile(entries, times)"),
    ),
    *bugs_in("tileir/interp/races.py", ("tests/interp/test_races.py",),
        ("a race between a wide access and a later narrow one is not reported",
         "        fine.seen |= self.seen\n",
         ""),
        ("a race with an access in a loop that releases in each iteration is not reported",
         "        return self.instance == instance and self.epoch == epoch",
         "        return self.instance == instance"),
    ),
)  # fmt: skip
