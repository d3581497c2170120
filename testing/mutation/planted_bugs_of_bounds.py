"""Planted bugs of races, barriers, reductions, bounds of descriptors, and numbers of frontends."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, bugs_in

BUGS_OF_BOUNDS: tuple[Bug, ...] = (
    *bugs_in("backend/codegen/emit/reduction.py", ("tests/backend/test_combiners.py",),
        ("a reduction of an i8 and an i32 operand across two warps accesses "
         "shared memory misaligned",
         "base += align_to_16(count * warps * element.bytes)",
         "base += count * warps * element.bytes"),
    ),
    *bugs_in("backend/codegen/emit/reduction.py", ("tests/backend/test_reduction_layouts.py",),
        ("a reduction by a function ignores its predicate in registers that may be padding",
         'if op.predicate is None or inside == "false":\n'
         "        return inside",
         "if op.predicate is None or inside is not None:\n"
         "        return inside"),
    ),
    *bugs_in("backend/layouts/reduction_plan.py", ("tests/backend/test_reduction_layouts.py",),
        ("a reduction of a padded tile by a function across warps writes its "
         "flags beyond its shared memory",
         "if isinstance(op.combiner, str) and may_have_padding(op):\n"
         "        sizes.append(1)",
         "if isinstance(op.combiner, str) and op.predicate is not None:\n"
         "        sizes.append(1)"),
    ),
    *bugs_in("backend/legalize/descriptors.py", ("tests/backend/test_expand.py",),
        ("a tensor descriptor with a negative extent has no bound",
         "    return builder.add(SMax(builder.to_i64(n), constant(I64, 0)))\n",
         "    return builder.to_i64(n)\n"),
    ),
    *bugs_in("backend/shared_memory/byte_ranges.py", (
        "tests/backend/shared_memory/test_barriers.py",
    ),
        ("a barrier is missing between two accesses that share only the last "
         "element of the first one",
         "return start[0] + low * size, start[1] + high * size",
         "return start[0] + low * size, start[0] + high * size"),
    ),
    *bugs_in("backend/shared_memory/hazards.py", (
        "tests/backend/shared_memory/test_barrier_sequences.py",
    ),
        ("the barrier after a fence is missing if the next access is in another "
         "block, so threads go on before all have passed the fence",
         "set(since.shared), set(since.near), {}, since.fenced, set(since.acquired)\n"
         "        )\n"
         "        if label",
         "set(since.shared), set(since.near), {}, acquired=set(since.acquired)\n"
         "        )\n"
         "        if label"),
    ),
    *bugs_in("backend/shared_memory/hazards.py", ("tests/backend/shared_memory/test_barriers.py",),
        ("a barrier is missing between a store at a bounded scalar offset and a "
         "load after it at a constant one",
         "ends = [sign * coefficient * bound for bound in bounds.of(value)]",
         "ends = [coefficient * bound for bound in bounds.of(value)]"),
    ),
    *bugs_in("backend/shared_memory/mask_extents.py", (
        "tests/backend/shared_memory/test_mask_extents.py",
    ),
        ("a barrier is missing after a masked store whose mask compares a "
         "multiple of the index with a number that is no multiple",
         "max(1, -(-(end - start) // step))",
         "max(1, (end - start) // step)"),
    ),
    *bugs_in("backend/shared_memory/place_barriers.py", (
        "tests/backend/shared_memory/test_moving_accesses.py",
    ),
        ("a barrier that is needed within one iteration is skipped when the "
         "run-time stride of the loop is long",
         "if op in needed or placed.get(op) is not SyncScope.BLOCK:",
         "if placed.get(op) is not SyncScope.BLOCK:"),
    ),
    *bugs_in("backend/shared_memory/thread_conflicts.py", (
        "tests/backend/shared_memory/test_thread_conflicts.py",
    ),
        ("a barrier is missing in a loop that reads what another thread wrote "
         "two iterations before",
         "return spans_disjoint(a, b) and (_span(b) > _span(a)) is (step > 0)",
         "return spans_disjoint(a, b)"),
    ),
    *bugs_in("backend/simt/counts.py", ("tests/backend/test_access_counts.py",),
        ("the ideal number of sectors counts bytes that several lanes read as "
         "often as they are read",
         "sectors = np.unique(where)",
         "sectors = where"),
    ),
    *bugs_in("backend/tma/delinearize.py", ("tests/backend/test_delinearize.py",),
        ("an index with an upper bound only that starts below 0 is read by a "
         "tensor map, as zeros",
         "        if dimension.tile_dim in self.limits.starts:\n",
         "        if dimension.tile_dim in self.limits.ends:\n"),
    ),
    *bugs_in("backend/tma/host_plan.py", ("tests/runtime/test_launch_program.py",),
        ("a tensor without a map whose rows are aligned but do not end so is "
         "accessed past their ends",
         "    steps = [*strides[:-1], extents[-1]] if strides[-1] == 1 else [1]\n",
         "    steps = strides[:-1] if strides[-1] == 1 else [1]\n"),
    ),
    *bugs_in("backend/tma/infer_descriptors.py", ("tests/backend/test_described_orders.py",),
        ("a batch whose first dimension is contiguous in memory is loaded with "
         "permuted dimensions",
         "            order = tuple(access.order.index(d) for d in range(len(kind.shape)))\n",
         "            order = access.order\n"),
    ),
    *bugs_in("backend/tma/modulo_to_mask.py", ("tests/backend/test_wrapped_indices.py",),
        ("dot(v, b, v) with columns of v that wrap modulo n gives wrong results",
         "(op.a, (0,)), (op.b, (1,)), (op.c, (0, 1)))",
         "(op.a, (0,)), (op.b, (1,)))"),
    ),
    *bugs_in("backend/transforms/full_tiles.py", ("tests/backend/test_full_tile_masks.py",),
        ("a load under an unsigned comparison of a possibly negative index reads "
         "out of bounds, as its mask is dropped",
         "if min(bounds.of(v)[0] for v in (left, right)) < 0:",
         "if bounds.of(right)[0] < 0:"),
        ("accesses under the negation of i < n happen in all lanes if they do in the last one",
         'if op.mnemonic != "icmp" or op.results[0] is not mask:',
         'if op.mnemonic != "icmp":'),
    ),
    *bugs_in("builder/contraction/ranges.py", ("tests/builder/contraction/test_ranges.py",),
        ("a contraction whose indices are bounded only together is refused "
         "(TIR0811) if it has another index",
         "combined = {side for side in sides if not side.coefficient(index)}",
         "combined = set[AffineIndex]()"),
    ),
    *bugs_in("frontends/decoupled/evaluate.py", ("tests/frontends/decoupled/test_language.py",),
        ("an integer remainder at the edge of two dimensions divides by zero",
         "            item = k.b.where(align_axes(TileValue(mask, (axis,)), axes), item, 1)\n",
         "            return k.b.where(align_axes(TileValue(mask, (axis,)), axes), item, 1)\n"),
    ),
    *bugs_in("frontends/decoupled/grid.py", ("tests/frontends/decoupled/test_grid.py",),
        ("a dimension split twice by map, the first time with a remainder, is "
         "computed in wrong places",
         "exact = isinstance(mine, int) and mine % ", "exact = level.total % "),
    ),
    *bugs_in("frontends/decoupled/plan.py", ("tests/frontends/decoupled/test_reductions.py",),
        ("a split sum of int64 loses the low bits of its parts",
         '            if "." in root.name and kind in (I32, I64, F64):\n',
         '            if "." in root.name and kind in (I32, F64):\n'),
    ),
    *bugs_in("frontends/decoupled/ranges.py", ("tests/frontends/decoupled/test_language.py",),
        ("tiles that do not divide their block access memory past the end of the tensor",
         "            exact = not walk.is_ragged and walk.block % walk.step == 0\n",
         "            exact = not walk.is_ragged\n"),
    ),
    *bugs_in("frontends/triton/casting.py", ("tests/frontends/triton/test_casts.py",),
        ("a float above the largest signed number that is cast to an unsigned integer is wrong",
         "    signed = old.signed if old.is_int() else to.signed\n",
         "    signed = old.signed\n"),
    ),
    *bugs_in("frontends/triton/language/arithmetic.py", (
        "tests/frontends/triton/test_elementwise.py",
    ),
        ("tl.clamp with PropagateNan.ALL gives the upper bound for NaN",
         "    return minimum.apply(s, low, max, propagate_nan)\n",
         "    return minimum.apply(s, low, max)\n"),
    ),
    *bugs_in("frontends/triton/language/memory.py", ("tests/frontends/triton/test_accesses.py",),
        ("boundary_check with a negative dimension checks nothing",
         "    return number % rank\n",
         "    return number\n"),
    ),
    *bugs_in("frontends/triton/language/reductions.py", (
        "tests/frontends/triton/test_reductions.py",
    ),
        ("tl.max and tl.min with return_indices ignore keep_dims",
         '            return _extreme(s, input, axis, keep_dims, largest=name == "max")\n',
         '            return _extreme(s, input, axis, False, largest=name == "max")\n'),
    ),
    *bugs_in("frontends/triton/semantic.py", ("tests/frontends/triton/test_extreme_values.py",),
        ("the remainder of known negative integers has the sign of the divisor, "
         "unlike at run time",
         "    tensor = _fold(b, lambda n, m: n - _quotient(n, m) * m, left, right)\n",
         "    tensor = _fold(b, lambda n, m: n % m, left, right)\n"),
    ),
    *bugs_in("frontends/triton/semantic.py", ("tests/frontends/triton/test_mixed_types.py",),
        ("an int32 shifted right by a uint32 loses its sign",
         "        shifted = next((t.dtype for t in (x, y) if isinstance(t, Tensor)), kind)\n"
         "        signed = isinstance(shifted, DType) and shifted.is_int_signed()\n",
         "        signed = kind.is_int_signed()\n"),
    ),
    *bugs_in("frontends/triton/statements.py", ("tests/frontends/triton/test_language.py",),
        ("what follows an unrolled loop that is left by break is not executed",
         "        through = through or left is not None\n",
         "        through = through or left is ast.Continue\n"),
    ),
    *bugs_in("frontends/triton/tensor.py", ("tests/frontends/triton/test_conversions.py",),
        ("a literal that is one above the largest of its type wraps without an error",
         "    if not low <= number < high:\n",
         "    if not low <= number <= high:\n"),
    ),
    *bugs_in("frontends/triton_c/builtins.py", ("tests/frontends/triton_c/test_functions.py",),
        ("a masked atomic addition under a predicate ignores the predicate",
         "            mask = condition if mask is None else "
         "frame.conjunction(mask, condition)\n",
         "            mask = condition\n"),
    ),
    *bugs_in("frontends/triton_c/expressions.py", ("tests/frontends/triton_c/test_literals.py",),
        ("a number that the pointee cannot hold is truncated in `c ? *p : number`",
         "    return isinstance(number, int) and values.as_kind(number, kind) == number\n",
         "    return isinstance(number, int)\n"),
    ),
    *bugs_in("frontends/triton_c/numbers.py", ("tests/frontends/triton_c/test_control.py",),
        ("the remainder of negative constants is not C's",
         "    return x - _quotient(x, y) * y if integers else math.fmod(x, y)\n",
         "    return x % y if integers else math.fmod(x, y)\n"),
    ),
    *bugs_in("frontends/triton_c/statements.py", ("tests/frontends/triton_c/test_control.py",),
        ("what follows an endless loop with a break before a continue is not executed",
         "        loop.left |= leaves\n",
         "        loop.left = leaves\n"),
    ),
    *bugs_in("tileir/interp/access.py", ("tests/interp/test_happens_before.py",),
        ("a compare-and-swap that fails still counts as a release, so a race "
         "with what came before it is not reported",
         "chosen = lanes if wrote is None else wrote",
         "chosen = lanes"),
        ("an atomic load of block scope is not reported as a race with an atomic "
         "store of another instance",
         "_OF_A_BLOCK = {Touch.ATOMIC_READ: Touch.READ, Touch.ATOMIC_WRITE: Touch.WRITE}",
         "_OF_A_BLOCK = {Touch.ATOMIC_WRITE: Touch.WRITE}"),
    ),
    *bugs_in("tileir/interp/clocks.py", ("tests/interp/test_races.py",),
        ("a correctly synchronized program is reported as a race where an "
         "acq_rel fence passes on what relaxed loads have seen",
         "        if acquire:\n"
         "            self.join(self.seen)\n"
         "        if release:\n"
         "            self.released = self.publish()",
         "        if release:\n"
         "            self.released = self.publish()\n"
         "        if acquire:\n"
         "            self.join(self.seen)"),
        ("a false race is reported after relaxed loads of two flags and one acquire fence",
         "clock.seen = result | clock.seen",
         "clock.seen = result"),
    ),
    *bugs_in("tileir/interp/races.py", ("tests/interp/test_races.py",),
        ("a race between an element and a wider access of an array that is not "
         "aligned to the wider size is missed or reported at the wrong element",
         "lead = (region.view(log.size)[1] - region.view(shadow.size)[1]) // shadow.size\n"
         "        wide",
         "lead = (region.view(log.size)[1] - region.view(shadow.size)[1]) // log.size\n"
         "        wide"),
        ("an atomic write after plain reads by another instance is not reported "
         "as a race if the writer itself read the element last",
         "Touch.ATOMIC_WRITE: (written, *read),",
         "Touch.ATOMIC_WRITE: (written, read[0]),"),
        ("a race between a store and a load of another instance is missed where "
         "the storing instance loaded the element by two ops before",
         "lost = self.instances[shadow.reader[cells]] != self.instances[entries]",
         "lost = shadow.reader[cells] != entries"),
    ),
    *bugs_in("tileir/interp/strided_access.py", ("tests/interp/test_fast_paths.py",),
        ("two lanes of a strided store that write different values to one "
         "address are not an error (TIR0509)",
         "if stride <= reach:",
         "if stride < reach:"),
    ),
    *bugs_in("tileir/passes/laws/integers.py", ("tests/passes/test_law_conditions.py",),
        ("floored division by the least integer is simplified to a shift or mask",
         "    number = as_signed(operand)\n"
         "    return number.bit_length() - 1",
         "    number = bits(operand)\n"
         "    return number.bit_length() - 1"),
    ),
)  # fmt: skip
