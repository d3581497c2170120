"""Planted bugs of the passes of warp specialization. Only generated matmuls test for them: the
files of expected output would fail for any change."""

from __future__ import annotations

from tileir.testing.mutation.areas import programs_of
from tileir.testing.mutation.bug import Bug, bugs_in

_FILES = ("tests/passes/test_files.py",)


def _judges(*names: str) -> tuple[str, ...]:
    """The tests of generated programs for passes."""
    return tuple(map(programs_of, names))


_CORPUS = ("tests/corpus/test_found.py",)

BUGS_OF_WARP_SPECIALIZATION: tuple[Bug, ...] = (
    *bugs_in(
        "backend/tma/modulo_to_mask.py",
        _judges("modulo-to-mask"),
        (
            "a store under any bound leaves out what wraps around",
            'b.relation == "slt" and _slack(b.left, b.right) == expected',
            'b.relation == "slt"',
        ),
        (
            "the existing mask of a load is dropped",
            "inside = builder.add(And(op.mask, inside))",
            "pass",
        ),
    ),
    *bugs_in(
        "backend/tma/delinearize.py",
        _judges("infer-descriptors"),
        (
            "an inclusive bound is exclusive",
            "return (right - left - one,)",
            "return (right - left,)",
        ),
        (
            "the host's part of an address is dropped",
            "return TensorAccess(address.base, host,",
            "return TensorAccess(address.base, number(0),",
        ),
    ),
    *bugs_in(
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
    *bugs_in(
        "backend/warp_specialize/swap_operands.py",
        _judges("swap-operands"),
        (
            "an accumulator with a constant start starts with 0",
            "return Constant(_transposed_type(operand.type), operand.bits)",
            "return Constant(_transposed_type(operand.type), 0)",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/k_partition.py",
        _judges("split-k"),
        (
            "every rank starts with the first iteration",
            "offset = self._times(self._rank_as(counter.step.type), counter.step)",
            "offset = Constant(counter.step.type, 0)",
        ),
        (
            "ranks execute every iteration",
            "bits = (step.bits * self.ranks) &",
            "bits = step.bits &",
        ),
        (
            "every rank adds the initial accumulator",
            "return self._emit(Select(test, start, zero))",
            "return start",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/producer.py",
        _judges("warp-specialize", "roles-simt"),
        (
            "a stage is filled before it is read",
            "MBarrierWait(empty, stage, flip_parity(parity, ops))",
            "MBarrierWait(empty, stage, parity)",
        ),
        ("half of a copy is expected", "bytes=ring.tma_bytes)", "bytes=ring.tma_bytes // 2)"),
    ),
    *bugs_in(
        "backend/warp_specialize/producer.py",
        ("tests/backend/warp_specialize/test_unmapped.py",),
        (
            "loads by threads are read without a fence",
            "ops += [AsyncFence(), MBarrierArrive",
            "ops += [MBarrierArrive",
        ),
    ),
    *bugs_in(
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
    *bugs_in(
        "backend/warp_specialize/ring_buffers.py",
        _judges("warp-specialize", "roles-simt"),
        (
            "the parity changes with every stage",
            "next_parity = _append(ops, Select(wraps, next_parity, parity))",
            "pass",
        ),
    ),
    *bugs_in(
        "backend/software_pipeline/overlap_wgmma.py",
        _judges("defer-wgmma-waits", "roles-simt"),
        (
            "the stage of this iteration is released",
            "arrival.evolve(index=deferred[arrival], condition=begun)",
            "arrival.evolve(condition=begun)",
        ),
        ("the last stages are not released", "(*waits, *arrivals, Branch(", "(*waits, Branch("),
        (
            "the first iteration releases a stage",
            "first = (constant(I1, 0),",
            "first = (constant(I1, 1),",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/chained_matmul_pipeliner.py",
        _judges("pipeline-chained-matmuls", "roles-simt"),
        (
            "a wait leaves one matmul too many in flight",
            "first.evolve(pending=1)",
            "first.evolve(pending=2)",
        ),
        (
            "the last matmul after the loop adds to the previous accumulator",
            "(*arguments, last.a, last.c))",
            "(*arguments, last.a, self.next_values[last.c]))",
        ),
    ),
    *bugs_in(
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
    *bugs_in(
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
    *bugs_in(
        "backend/codegen/emit/ldmatrix.py",
        ("tests/backend/warp_specialize/test_epilogue.py",),
        (
            "matrices are stored transposed",
            "lowering.thread.store_matrix(tile.element, transposed,",
            "lowering.thread.store_matrix(tile.element, not transposed,",
        ),
        (
            "matrices of a store are of other columns",
            "for v in matrices for x in fragment[first[v] :][:each]",
            "for v in matrices[::-1] for x in fragment[first[v] :][:each]",
        ),
    ),
    *bugs_in(
        "backend/layouts/conditional_row_max.py",
        _FILES,
        (
            "any power rescales the accumulators",
            "return op.lhs == choice.otherwise and op.rhs is choice.results[0]",
            "return True",
        ),
        (
            "a condition with other readers is removed",
            "if len(readers) > 1 or None in exponents:",
            "if None in exponents:",
        ),
        ("a value is computed after the select", "ops.index(op) < ops.index(choice)", "True"),
    ),
    *bugs_in(
        "backend/warp_specialize/prefetch_register_operands.py",
        _FILES,
        ("loads pass stores", "changing = (Effects.WRITE |", "changing = (Effects.OUTSIDE |"),
    ),
    *bugs_in(
        "backend/warp_specialize/prefetch_register_operands.py",
        _judges("prefetch-register-operands"),
        (
            "the load of an iteration that does not run is not masked",
            "mask = self.ahead.mask(op, env, valid, ops)",
            "mask = self.ahead.mask(op, env, None, ops)",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/epilogue.py",
        ("tests/backend/warp_specialize/test_epilogue.py",),
        (
            "a vector is stored as rows",
            "return maker.value if shape_of(maker.value.type) == shape else None",
            "return maker.value",
        ),
        (
            "a sum is computed on the rows of its first operand",
            "if len(maker.operands) != 1 or len(maker.results) != 1:",
            "if len(maker.results) != 1:",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/copy_stages.py",
        ("tests/backend/warp_specialize/test_copy_stages.py",),
        ("what a mask leaves out is not zero", "if not load.fills_with_zeros or", "if"),
        (
            "a load with another use becomes a copy",
            "len(uses(function)[load.results[0]]) != 1",
            "not uses(function)[load.results[0]]",
        ),
        ("a load passes a store", "elif op.effects is not Effects.PURE:", "elif False:"),
        (
            "columns that are not stored are copied",
            "or load.predicate is not None or store.columns:",
            "or load.predicate is not None:",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/producer.py",
        ("tests/backend/warp_specialize/test_copy_stages.py",),
        ("the last stage is never full", "if isinstance(op, Return) and", "if False and"),
        (
            "the copies of a stage are in flight when it is full",
            "self._arrive_trailing(buffers, state, 1, ops)",
            "self._arrive_trailing(buffers, state, 2, ops)",
        ),
        ("copies are not waited for", "[AsyncCommit(), AsyncWait()] if", "[AsyncCommit()] if"),
    ),
    *bugs_in(
        "backend/warp_specialize/ring_buffers.py",
        ("tests/backend/warp_specialize/test_copy_stages.py",),
        (
            "consumers hold the stage that is copied next",
            "_FEWEST_STAGES = 3",
            "_FEWEST_STAGES = 2",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/consumer.py",
        ("tests/backend/warp_specialize/test_copy_stages.py",),
        (
            "a stage that threads have copied is read without a fence",
            "if buffers is self.trailing:",
            "if False:",
        ),
    ),
    *bugs_in(
        "backend/software_pipeline/delay_wgmma_waits.py",
        ("tests/backend/test_delay_wgmma_waits.py",),
        (
            "an accumulator in flight is read",
            "if wait.result is op.c and len(self.uses[wait.result]) == 1:",
            "if wait.result is op.c:",
        ),
        (
            "a wait leaves its own matmul in flight",
            "self.delayed.pop(wait), self._after(wait)",
            "self.delayed.pop(wait), self._after(wait) + 1",
        ),
        (
            "buffers are refilled while they are read",
            "if not passes:",
            "if False:",
        ),
        (
            "a matmul precedes what computes its operands",
            "return is_free and read.isdisjoint(op.results)",
            "return is_free",
        ),
        (
            "fewer blocks are resident",
            "return more == fewer",
            "return True",
        ),
        (
            "more accumulators are alive",
            "may_pass = self.together or not _begins_accumulator(op)",
            "may_pass = True",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/per_warpgroup_stores.py",
        ("tests/backend/warp_specialize/test_per_warpgroup_stores.py", *_FILES),
        (
            "warpgroups own elements that others wrote",
            "return bool((at[:, 0] // rows % groups == threads // (LANES * WARPS)).all())",
            "return True",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/async_hazards.py",
        _CORPUS,
        ("a copy waits for no earlier one", "if _must_wait(instance, op, copied))", "if False)"),
        ("threads access what copies write", "        if not bad:\n", "        if True:\n"),
        ("accesses of earlier iterations are ignored", " or label in self.reachable[start]", ""),
        (
            "an operand is loaded although the kernel writes it",
            "for op in (load.op, *ring.dots))",
            "for op in ())",
        ),
        (
            "an address is loaded although the kernel writes it",
            "        for reader in readers\n",
            "        for reader in readers[:0]\n",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/async_hazards.py",
        ("tests/passes/test_files.py", "tests/corpus/test_found.py"),
        (
            "overlapping blocks of consecutive iterations are disjoint",
            "abs(step.constant) < extent:",
            "abs(step.constant) < 1:",
        ),
    ),
    *bugs_in(
        "backend/warp_specialize/per_warpgroup_stores.py",
        _FILES,
        ("warpgroups wait for writes of others", "or complete or not all(", "or not all("),
    ),
    *bugs_in(
        "backend/simt/async_global_accesses.py",
        ("tests/backend/test_simt_async_global_accesses.py",),
        (
            "a copy that accumulates conflicts",
            "            bad &= ~self.added[at]\n",
            "            return\n",
        ),
        (
            "a copy that has read has written",
            "traffic.flying[at] += 1",
            "traffic.flying[at] += 0",
        ),
        (
            "a copy is complete for all threads",
            "            self.shadows[number].wrote(part, thread)\n",
            "            pass\n",
        ),
    ),
    *bugs_in(
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
