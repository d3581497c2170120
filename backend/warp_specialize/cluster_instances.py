"""Clusters of blocks, each of which works for an instance of its own beside the others'."""

from __future__ import annotations

from tileir.analysis.clusters import ATTRIBUTE, SIZES, persistent_instances
from tileir.backend.warp_specialize.persistent import PersistentLoop
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.arith import Add, Mul, SDiv, SMin, Sub
from tileir.ops.compare import ICmp, IntegerPredicate
from tileir.ops.dot import Dot
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import I1, I32
from tileir.values import Operand, Value, constant


@pass_("cluster-instances")
def cluster_instances(module: Module, *, ranks: int = 2) -> PassResult:
    """Let the blocks of a cluster work for neighbouring instances, side by side.

    As `persist`, of kernels that multiply: what a block does in a round, a cluster of `ranks`
    blocks does for as many instances that follow each other, of which block r has the r-th. All
    of its blocks go through every round, since they may load for each other (`multicast`): one
    that has no instance left computes the last once more, and ends it where what the kernel
    writes begins.

    before:
        define kernel void @f(f32* %p) {
        entry:
          %i = program_id i32
          %y = dot f32<64, 16> f16<64, 16> 1.0, f16<16, 16> 1.0, 0.0
          %r = splat f32*<64, 16> %p
          %z = splat i32<64, 16> %i
          %q = getelementptr f32*<64, 16> %r, %z
          store %q, %y
          ret
        }
    after:
        stage "clustered"

        define kernel void @f(f32* %p, i32 %grid.0, i32 %grid.1, i32 %grid.2) {persistent = 2, cluster = 2} {
        entry:
          %0 = program_id i32
          %1 = num_programs i32
          %2 = mul i32 %grid.0, %grid.1
          %3 = mul i32 %2, %grid.2
          %4 = gpu.cluster_rank i32
          %5 = sub i32 %3, 1
          %6 = add i32 %3, 1
          %7 = sdiv i32 %6, 2
          %8 = mul i32 %1, 2
          %9 = mul i32 %0, 2
          %10 = sub i32 %8, %9
          %11 = sub i32 %10, 1
          br instances
        instances:
          %round = phi i32 [%0, entry], [%15, next]
          %step = phi i32 [%11, entry], [%16, next]
          %12, _ = icmp (i1, i1) %round, %7 {predicate = slt}
          cond_br %12, instance, finished
        instance:
          %13 = mul i32 %round, 2
          %14 = add i32 %13, %4
          %inside, _ = icmp (i1, i1) %14, %3 {predicate = slt}
          %instance = smin i32 %14, %5
          %i = urem i32 %instance, %grid.0
          %y = dot f32<64, 16> f16<64, 16> 1.0, f16<16, 16> 1.0, 0.0
          %r = splat f32*<64, 16> %p
          %z = splat i32<64, 16> %i
          %q = getelementptr f32*<64, 16> %r, %z
          br guard
        guard:
          cond_br %inside, entry.results, outside
        entry.results:
          store %q, %y
          br next
        outside:
          br next
        next:
          %15 = add i32 %round, %step
          %16 = sub i32 %8, %step
          br instances
        finished:
          ret
        }
    """  # noqa: E501
    remarks = []
    for name, function in module.functions.items():
        if not function.kernel or not any(isinstance(op, Dot) for op in function.ops):
            continue
        made = cluster_kernel(function, ranks)
        if isinstance(made, Refusal):
            remarks.append(made.remark("TIR0655", "no cluster", function.location))
            continue
        module = module.evolve(functions={**module.functions, name: made}, stage="clustered")
    return PassResult(module, tuple(remarks))


def cluster_kernel(function: Function, ranks: int) -> Function | Refusal:
    """The persistent kernel of clusters of `ranks` blocks; else why there is none."""
    from tileir.backend.warp_specialize.predicate_effects import predicate_side_effects

    if ranks not in SIZES[1:]:
        return Refusal(f"clusters have {', '.join(map(str, SIZES[1:]))} blocks")
    if ATTRIBUTE in function.attributes or persistent_instances(function):
        return Refusal("its blocks have been told what to work for")
    inside = Value(I1, "inside")
    cut = predicate_side_effects(function, inside)
    if isinstance(cut, Refusal):
        return cut
    made = _Neighbours(cut, ranks, inside).function()
    return made.evolve(attributes={**made.attributes, ATTRIBUTE: ranks})


class _Neighbours(PersistentLoop):
    def __init__(self, function: Function, ranks: int, inside: Value) -> None:
        from tileir.ops.cluster import ClusterRank

        super().__init__(function)
        self.together, self.inside = ranks, inside
        self.counter, self.instance = Value(I32, "round"), Value(I32, "instance")
        self.rank = ClusterRank()
        self.count: Operand = constant(I32, 0)

    def bound(self, count: Operand, ops: list[Op]) -> Operand:
        last, more = Sub(count, constant(I32, 1)), Add(count, constant(I32, self.together - 1))
        rounds = SDiv(more.result, constant(I32, self.together))
        ops += [self.rank, last, more, rounds]
        self.count, self.last = count, last.result
        return rounds.result

    def taken(self) -> list[Op]:
        first = Mul(self.counter, constant(I32, self.together))
        mine = Add(first.result, self.rank.result)
        held = ICmp(
            mine.result, self.count, predicate_=IntegerPredicate.SLT,
            results=(self.inside, Value(I1)),
        )  # fmt: skip
        return [first, mine, held, SMin(mine.result, self.last, results=(self.instance,))]
