"""Prefetch of the fragments of a pipelined dot, one step of K ahead of the `mma`."""

from __future__ import annotations

from tileir.backend.software_pipeline.expand import PipelineExpander, step_of
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.types import I32, shape_of
from tileir.values import Operand, Value, constant


class OperandPrefetch(PipelineExpander):
    """A loop of one dot in several steps of K. The fragments of the next step are loaded from
    shared memory before a step is computed. Before the last step, these are the fragments of the
    next iteration's first step, loaded after the wait and the barrier for its stages. The loop
    carries them."""

    def on_entry(self, ops: list[Op]) -> list[Operand]:
        self.wait_for_stages(ops)
        return self._fragments(self._dot_of(), constant(I32, 0), 0, ops)

    def parameters(self) -> tuple[Value, ...]:
        scratch: list[Op] = []
        fragments = self._fragments(self._dot_of(), constant(I32, 0), 0, scratch)
        self.carried_fragments = tuple(Value(v.type) for v in fragments)
        return self.carried_fragments

    def start_iteration(self, write: Value, ops: list[Op]) -> list[Operand]:
        return self.issue_copies(write, ops)

    def dot(self, dot: Dot, stages: tuple[Value, Operand], ops: list[Op]) -> list[Operand]:
        depth, step = shape_of(dot.a.type)[1], step_of(dot)
        fragments: list[Operand] = list(self.carried_fragments)
        total = dot.c
        for start in range(0, depth, step):
            following, last = start + step, start + step == depth
            if last:
                self.wait_for_stages(ops)
            stage, at = (stages[1], 0) if last else (stages[0], following)
            ahead = self._fragments(dot, stage, at, ops)
            total = self.add_step(dot, fragments, total, last=last, ops=ops)
            fragments = ahead
        return fragments

    def _dot_of(self) -> Dot:
        return self.loads[0].dots[0]

    def _fragments(self, dot: Dot, stage: Operand, start: int, ops: list[Op]) -> list[Operand]:
        fragments: list[Operand] = []
        for operand, dim in ((dot.a, 1), (dot.b, 0)):
            source = self.source(operand)
            assert source is not None
            fragments.append(self.part(source, dim, (start, step_of(dot)), stage, ops))
        return fragments
