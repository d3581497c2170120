"""Planted bugs of the passes that make roles, judged by generated products alone: the files that
say what a pass makes of a program would notice any change."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, planted

_FILES = ("tests/passes/test_files.py",)
_PROGRAMS = "tests/testing/test_passes.py::test_a_pass_keeps_the_meaning_of_programs[{}]"


def _judges(*names: str) -> tuple[str, ...]:
    """The tests of programs for passes."""
    return tuple(_PROGRAMS.format(name) for name in names)


_FOUND = ("tests/corpus/test_found.py",)

BUGS_OF_ROLES: tuple[Bug, ...] = (
    *planted(
        "backend/tma/modulo_to_mask.py",
        _judges("modulo-to-mask"),
        (
            "a store under any bound leaves out what wraps around",
            'b.relation == "slt" and _slack(b.left, b.right) == expected',
            'b.relation == "slt"',
        ),
        (
            "the mask that a load has is forgotten",
            "inside = builder.add(And(op.mask, inside))",
            "pass",
        ),
    ),
    *planted(
        "backend/tma/delinearize.py",
        _judges("infer-descriptors"),
        (
            "a bound that may be met is one that is not",
            "return (right - left - one,)",
            "return (right - left,)",
        ),
        (
            "the host's part of an address is lost",
            "return TensorAccess(address.base, host,",
            "return TensorAccess(address.base, NOTHING,",
        ),
    ),
    *planted(
        "backend/warp_specialize/persistent.py",
        _judges("persist"),
        (
            "a step is one instance too small",
            "Sub(less.result, constant(I32, 1))]",
            "Sub(less.result, constant(I32, 2))]",
        ),
        ("the step never changes", "(more.result, step.result)", "(more.result, self.step)"),
        (
            "the second axis is not divided by the first",
            "for extent in self.extents[: op.axis]:",
            "for extent in self.extents[:0]:",
        ),
    ),
    *planted(
        "backend/warp_specialize/swap_operands.py",
        _judges("swap-operands"),
        (
            "an accumulator with a constant start starts with 0",
            "return Constant(_transposed_type(operand.type), operand.bits)",
            "return Constant(_transposed_type(operand.type), 0)",
        ),
    ),
    *planted(
        "backend/warp_specialize/k_partition.py",
        _judges("split-k"),
        (
            "every rank starts with the first iteration",
            "offset = self._times(self._rank_as(counter.step.type), counter.step)",
            "offset = Constant(counter.step.type, 0)",
        ),
        ("ranks execute every iteration", "bits = (step.bits * self.ranks) &", "bits = step.bits &"),
        (
            "every rank adds the initial accumulator",
            "return self._emit(Select(test, start, zero))",
            "return start",
        ),
    ),
    *planted(
        "backend/warp_specialize/producer.py",
        _judges("warp-specialize", "roles-simt"),
        (
            "a stage is filled before it is read",
            "MBarrierWait(empty, stage, flip_parity(parity, ops))",
            "MBarrierWait(empty, stage, parity)",
        ),
        ("half of a copy is expected", "bytes=ring.tma_bytes)", "bytes=ring.tma_bytes // 2)"),
    ),
    *planted(
        "backend/warp_specialize/producer.py",
        ("tests/backend/warp_specialize/test_unmapped.py",),
        (
            "what threads load is read without a fence",
            "ops += [AsyncFence(), MBarrierArrive",
            "ops += [MBarrierArrive",
        ),
    ),
    *planted(
        "backend/warp_specialize/consumer.py",
        _judges("warp-specialize", "roles-simt"),
        (
            "matmuls are issued before stages are full",
            "                self._wait(buffers, state, waited, ops)\n        ops +=",
            "                waited.add(buffers)\n        ops +=",
        ),
        (
            "a stage is released by the first matmul that reads it",
            "if ring.dots[-1] is dot:",
            "if ring.dots[0] is dot:",
        ),
    ),
    *planted(
        "backend/warp_specialize/ring_buffers.py",
        _judges("warp-specialize", "roles-simt"),
        (
            "the parity changes with every stage",
            "next_parity = _append(ops, Select(wraps, next_parity, parity))",
            "pass",
        ),
    ),
    *planted(
        "backend/software_pipeline/overlap_wgmma.py",
        _judges("defer-wgmma-waits", "roles-simt"),
        (
            "the slot of this round is given back",
            "arrival.evolve(index=late[arrival], condition=begun)",
            "arrival.evolve(condition=begun)",
        ),
        ("the last slots are kept", "(whole, *arrivals, Branch(", "(whole, Branch("),
        (
            "the first round gives back a slot",
            "first = (constant(I1, 0),",
            "first = (constant(I1, 1),",
        ),
    ),
    *planted(
        "backend/warp_specialize/chained_matmul_pipeliner.py",
        _judges("pipeline-chained-matmuls", "roles-simt"),
        (
            "a wait leaves one matmul too many in flight",
            "first.evolve(pending=1)",
            "first.evolve(pending=2)",
        ),
        (
            "the last matmul after the loop adds to the previous accumulator",
            'edge = Successor(self.labels["mainloop"], (*arguments, last.a, last.c))',
            'edge = Successor(self.labels["mainloop"], (*arguments, last.a, self.next_values[last.c]))',
        ),
    ),
    *planted(
        "backend/warp_specialize/sink_wgmma_waits.py",
        _judges("sink-wgmma-waits", "roles-simt"),
        (
            "one matmul too many may be in flight",
            "pending = len(self.issued) - 1 - self",
            "pending = len(self.issued) - self",
        ),
        (
            "stages are released before they are read",
            "            if isinstance(op, (WgmmaWait, LocalLoad)):\n                return\n",
            "",
        ),
    ),
    *planted(
        "backend/warp_specialize/peel.py",
        _judges("peel-first-iteration", "roles-simt"),
        (
            "a loop that may not run has its first iteration peeled",
            'compare.predicate_.value == "slt" and first < last',
            'compare.predicate_.value == "slt"',
        ),
        (
            "the first iteration is executed twice",
            "        **_initial_values(function, loop),\n",
            "",
        ),
        (
            "the first iteration does not wait for its matmul",
            "isinstance(op, WgmmaWait) and op.pending >= issued",
            "isinstance(op, WgmmaWait)",
        ),
    ),
    *planted(
        "backend/codegen/emit/ldmatrix.py",
        ("tests/backend/warp_specialize/test_epilogue.py",),
        (
            "matrices are stored as if turned",
            "lowering.thread.store_matrix(tile.element, transposed,",
            "lowering.thread.store_matrix(tile.element, not transposed,",
        ),
        (
            "matrices of a store are of other columns",
            "for v in taken for x in fragment[first[v] :][:each]",
            "for v in taken[::-1] for x in fragment[first[v] :][:each]",
        ),
    ),
    *planted(
        "backend/layouts/conditional_row_max.py",
        _FILES,
        (
            "any power is what sums are multiplied by",
            "return op.lhs == choice.otherwise and op.rhs is choice.results[0]",
            "return True",
        ),
        (
            "a condition that others read is gone",
            "if len(others) > 1 or None in exponents:",
            "if None in exponents:",
        ),
        ("a number comes from behind the choice", "ops.index(op) < ops.index(choice)", "True"),
    ),
    *planted(
        "backend/warp_specialize/prefetch_register_operands.py",
        _FILES,
        ("loads pass stores", "changing = (Effects.WRITE |", "changing = (Effects.OUTSIDE |"),
    ),
    *planted(
        "backend/warp_specialize/prefetch_register_operands.py",
        _judges("prefetch-register-operands"),
        (
            "the load of an iteration that does not run is not masked",
            "mask = self.mask(op, env, valid, ops)",
            "mask = self.mask(op, env, None, ops)",
        ),
    ),
    *planted(
        "backend/warp_specialize/per_warpgroup_stores.py",
        ("tests/backend/warp_specialize/test_per_warpgroup_stores.py", *_FILES),
        (
            "warpgroups own what others wrote",
            "return bool((at[:, 0] // rows % groups == threads // (LANES * WARPS)).all())",
            "return True",
        ),
    ),
    *planted(
        "backend/warp_specialize/async_hazards.py",
        _FOUND,
        ("a copy waits for no earlier one", "if _must_wait(instance, op, copied))", "if False)"),
        ("threads access what copies write", "        if not bad:\n", "        if True:\n"),
        ("accesses of earlier iterations are ignored", " or label in self.reachable[start]", ""),
        (
            "a factor is loaded whoever wrote it",
            "for op in (load.op, *ring.dots))",
            "for op in ())",
        ),
        (
            "what says where to load is read whoever wrote it",
            "        for reader in readers\n",
            "        for reader in readers[:0]\n",
        ),
    ),
    *planted(
        "backend/warp_specialize/async_hazards.py",
        ("tests/passes/test_files.py", "tests/corpus/test_found.py"),
        (
            "a round over half of the one before moves on",
            "abs(step.constant) < extent:",
            "abs(step.constant) < 1:",
        ),
    ),
    *planted(
        "backend/warp_specialize/per_warpgroup_stores.py",
        _FILES,
        ("warpgroups wait for what others write", "or complete or not all(", "or not all("),
    ),
    *planted(
        "backend/simt/async_global_accesses.py",
        ("tests/backend/test_simt_async_global_accesses.py",),
        (
            "copies meet where one adds",
            "            bad &= ~self.added[at]\n",
            "            return\n",
        ),
        (
            "a copy that has read has written",
            "np.add.at(traffic.flying, at, 1)",
            "np.add.at(traffic.flying, at, 0)",
        ),
        (
            "a copy is complete for all threads",
            "            self.shadows[number].wrote(part, thread)\n",
            "            pass\n",
        ),
    ),
    *planted(
        "backend/warp_specialize/alternate_instances.py",
        _judges("pingpong", "roles-simt"),
        ("both consumers start at once", "constant(I32, 1 - self.index),)", "constant(I32, 1),)"),
        (
            "a consumer arrives at its own barrier",
            "MBarrierArrive(self.barriers, constant(I32, 1 - self.index))",
            "MBarrierArrive(self.barriers, constant(I32, self.index))",
        ),
    ),
)
