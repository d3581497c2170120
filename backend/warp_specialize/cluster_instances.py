"""Clusters of blocks that compute neighbouring program instances."""

from __future__ import annotations

from tileir.analysis.clusters import ATTRIBUTE, SIZES, persistent_instances
from tileir.backend.warp_specialize.persistent import PersistentLoop
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Mul, SMin, Sub
from tileir.ops.division import SDiv
from tileir.ops.dot import Dot
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import I1, I32
from tileir.values import Operand, Value, constant


@pass_("cluster-instances")
def cluster_instances(module: Module, *, ranks: int = 2) -> PassResult:
    """Let the blocks of a cluster compute neighbouring program instances.

    The pass makes a kernel with dots persistent, as `persist` does. In each iteration, a cluster of
    `ranks` blocks computes `ranks` consecutive instances, block r the r-th of them. All blocks of
    the cluster execute every iteration, since they may load for each other (`multicast`). A block
    without an instance repeats its previous one and skips the stores.

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
          %iteration = phi i32 [%0, entry], [%15, next]
          %step = phi i32 [%11, entry], [%16, next]
          %12, _ = icmp (i1, i1) %iteration, %7 {predicate = slt}
          cond_br %12, instance, finished
        instance:
          %13 = mul i32 %iteration, 2
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
          %15 = add i32 %iteration, %step
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
        clustered = cluster_kernel(function, ranks)
        if isinstance(clustered, Refusal):
            remarks.append(clustered.remark("TIR0655", "no cluster", function.location))
            continue
        module = module.evolve(functions={**module.functions, name: clustered}, stage="clustered")
    return PassResult(module, tuple(remarks))


def cluster_kernel(function: Function, ranks: int) -> Function | Refusal:
    """The persistent kernel for clusters of `ranks` blocks; or a Refusal with the reason why there
    is none."""
    from tileir.backend.warp_specialize.predicate_effects import predicate_side_effects

    if ranks not in SIZES[1:]:
        return Refusal(f"clusters have {', '.join(map(str, SIZES[1:]))} blocks")
    if ATTRIBUTE in function.attributes or persistent_instances(function):
        return Refusal("the kernel is persistent or has a cluster already")
    inside = Value(I1, "inside")
    predicated = predicate_side_effects(function, inside)
    if isinstance(predicated, Refusal):
        return predicated
    clustered = _ClusterLoop(predicated, ranks, inside).function()
    return clustered.evolve(attributes={**clustered.attributes, ATTRIBUTE: ranks})


class _ClusterLoop(PersistentLoop):
    def __init__(self, function: Function, ranks: int, inside: Value) -> None:
        from tileir.ops.cluster import ClusterRank

        super().__init__(function)
        self.instances_per_iteration, self.inside = ranks, inside
        self.counter, self.instance = Value(I32, "iteration"), Value(I32, "instance")
        self.rank = ClusterRank()
        self.count: Operand = constant(I32, 0)

    def bound(self, count: Operand, ops: list[Op]) -> Operand:
        last, more = (
            Sub(count, constant(I32, 1)),
            Add(count, constant(I32, self.instances_per_iteration - 1)),
        )
        iterations = SDiv(more.result, constant(I32, self.instances_per_iteration))
        ops += [self.rank, last, more, iterations]
        self.count, self.last = count, last.result
        return iterations.result

    def select_instance(self) -> list[Op]:
        first = Mul(self.counter, constant(I32, self.instances_per_iteration))
        mine = Add(first.result, self.rank.result)
        test = ICmp(
            mine.result, self.count, predicate_=IntegerPredicate.SLT,
            results=(self.inside, Value(I1)),
        )  # fmt: skip
        return [first, mine, test, SMin(mine.result, self.last, results=(self.instance,))]
