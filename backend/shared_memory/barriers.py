"""The pass that inserts barriers (MAPL 2019, section 5.2.4)."""

from __future__ import annotations

from tileir.backend.shared_memory.place_barriers import place_barriers
from tileir.backend.shared_memory.requirements import SharedMemoryPlan, check_layouts, needs
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.passmanager.registry import pass_


@pass_("insert-barriers")
def insert_barriers(module: Module) -> Module:
    """Insert barriers for read-after-write, write-after-read and write-after-write hazards.

    Only kernels with shared memory allocated (`allocate-shared`) change. An op that passes values
    between threads synchronizes within itself. A `gpu.barrier` is placed before an op that has a
    hazard with an access since the last barrier, on any path and around loops.

    - Shared memory: an op writes a range that overlaps one that other threads may still read or
      write.
    - Global memory: through one parameter, a thread loads an element that another thread stores, or
      stores one that another thread loads or stores.
    - Release: a releasing atomic op follows accesses of other threads.

    Redundant barriers are then removed.

    before:
        stage "allocated"
        #a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]])
        define kernel void @total(f32* noalias %x, f32* noalias %y, i32 %n) {num_warps = 4, shared = 16} {
        entry:
          %i = make_range i32<128, #a>
          %xs = splat f32*<128, #a> %x
          br loop
        loop:
          %k = phi i32 [0, entry], [%next, loop]
          %start = splat i32<128, #a> %k
          %at = add i32<128, #a> %i, %start
          %p = getelementptr f32*<128, #a> %xs, %at
          %v = load f32<128, #a> %p
          %sum = reduce f32 %v {combiner = fadd, shared = [0, 16]}
          store %y, %sum
          %next = add i32 %k, 128
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          cond_br %more, loop, done
        done:
          ret
        }
    after:
        stage "barriers"
        #a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32], [64]])
        define kernel void @total(f32* noalias %x, f32* noalias %y, i32 %n) {num_warps = 4, shared = 16} {
        entry:
          %i = make_range i32<128, #a>
          %xs = splat f32*<128, #a> %x
          br loop
        loop:
          %k = phi i32 [0, entry], [%next, loop]
          %start = splat i32<128, #a> %k
          %at = add i32<128, #a> %i, %start
          %p = getelementptr f32*<128, #a> %xs, %at
          %v = load f32<128, #a> %p
          gpu.barrier
          %sum = reduce f32 %v {combiner = fadd, shared = [0, 16]}
          store %y, %sum
          %next = add i32 %k, 128
          %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
          cond_br %more, loop, done
        done:
          ret
        }
    """  # noqa: E501
    kernels = {f.name: f for f in module.functions.values() if f.kernel and not f.is_declaration}
    for function in kernels.values():
        for op in function.ops:
            check_layouts(op)
    placed = {name: insert_barriers_into(function) for name, function in kernels.items()}
    if all(placed[name] is function for name, function in kernels.items()):
        return module
    return module.evolve(functions={**module.functions, **placed}, stage="barriers")


def insert_barriers_into(function: Function) -> Function:
    """Insert barriers into `function`, whose shared memory is allocated. Raises CompileError
    (TIR0709) where an op lacks a range that it needs."""
    for op, need in needs(function).items():
        if op.shared is None or op.shared[1] < need.size:
            message = (
                f"{op.mnemonic} needs {need.size} bytes of shared memory: "
                "`allocate-shared` has none"
            )
            raise CompileError(Diagnostic("TIR0709", message, op.location))
    return place_barriers(function, SharedMemoryPlan.of(function))
