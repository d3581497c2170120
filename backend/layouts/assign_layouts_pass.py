"""The pass that assigns a layout to every tile."""

from __future__ import annotations

from typing import Any, cast

from tileir.backend.demand import check_warps, stated_warps
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import AnchorLayouts
from tileir.backend.layouts.assign_layouts import assign_layouts
from tileir.backend.layouts.idle_threads import idle
from tileir.errors import Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.types import Descriptor, Tile


@pass_("assign-layouts", choices={"warps": (1, 2, 4, 8, 16)})
def assign_module_layouts(module: Module, *, warps: int = 0) -> PassResult:
    """Assign a layout to every tile, so that accesses coalesce.

    A layout says which thread owns which element. `warps` is the number of warps of a block: 0 for
    the kernel's `num_warps`, or 4 if it has none. Only kernels change. A kernel that passes tiles
    to functions, or accesses tensors by descriptors, is left with a remark: run `inline`, or
    compile the kernel, which lowers these ops first.

    - Accesses: neighbouring lanes access neighbouring addresses, in vectors as wide as alignment
      and masks allow (MAPL 2019, section 5.2.2).
    - Dots: operands and accumulator have the fragments of matrix instructions, or micro-tiles per
      thread, cut as the kernel's attributes `micro` and `nano` state
      (`tileir.backend.layouts.hierarchical_tiling`).
    - Data flow: values connected by elementwise ops share the layout that makes the conversions at
      ops with fixed layouts cheapest.
    - Rematerialization: ranges, splats, broadcasts and arithmetic on them are rematerialized in
      every requested layout. So are loads of at most one element per thread; lanes that need the
      same eight elements or more load one each.
    - Reductions: the result of a reduction across warps has the layout of its use.

    A remark names kernels in which some threads own only replicated elements of every tile: a
    smaller block would do.

    before:
        define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y) {
        entry:
          %i = make_range i32<512>
          %xs = splat f32*<512> %x
          %p = getelementptr f32*<512> %xs, %i
          %v = load f32<512> %p
          %ys = splat f32*<512> %y
          %q = getelementptr f32*<512> %ys, %i
          store %q, %v
          ret
        }
    after:
        stage "layouts"
        #a = layout(rank = 1, register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]])
        define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y) {num_warps = 4} {
        entry:
          %i = make_range i32<512, #a>
          %xs = splat f32*<512, #a> %x
          %p = getelementptr f32*<512, #a> %xs, %i
          %v = load f32<512, #a> %p
          %ys = splat f32*<512, #a> %y
          %q = getelementptr f32*<512, #a> %ys, %i
          store %q, %v
          ret
        }
    """  # noqa: E501
    remarks: list[Diagnostic] = []
    kernels: dict[str, Function] = {}
    for function in module.functions.values():
        if function.kernel:
            premature = next((op for op in function.ops if _precedes_layouts(op)), None)
            if premature is None:
                kernels[function.name] = _laid_out(function, warps)
            else:
                remarks.append(_remark_on(function, premature))
    if all(f is module.functions[name] for name, f in kernels.items()):
        return PassResult(module, tuple(remarks))
    laid_out = module.evolve(functions={**module.functions, **kernels}, stage="layouts")
    return PassResult(laid_out, (*remarks, *(r for f in kernels.values() for r in idle(f))))


def _precedes_layouts(op: Op) -> bool:
    """Whether `op` is one that the compiler has replaced before tiles get layouts."""
    if op.mnemonic == "call":
        return any(isinstance(v.type, Tile) for v in (*op.operands, *op.results))
    return any(isinstance(v.type, Descriptor) for v in op.operands)


def _remark_on(function: Function, op: Op) -> Diagnostic:
    if op.mnemonic == "call":
        why = f"it calls @{cast(Any, op).callee} with tiles: run `inline` first, and link "
        why += "functions that are only declared"
    else:
        why = f"{op.mnemonic} reads a descriptor, which `compile` expands before"
    return remark("TIR0669", f"@{function.name} is left without layouts: {why}", op.location)


def _laid_out(function: Function, warps: int) -> Function:
    """`function` with layouts, and the number of warps they are for."""
    if function.is_declaration:
        return function
    count = warps or stated_warps(function) or 4
    check_warps(function, count)
    assigned = assign_layouts(function, AnchorLayouts(function, AccessWidths(function), count))
    return assigned.evolve(attributes={**assigned.attributes, "num_warps": count})
