"""The pass that gives every tile a layout."""

from __future__ import annotations

from tileir.backend.layouts.anchors import Anchors
from tileir.backend.layouts.assignment import assign_layouts
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.layouts.idle import idle
from tileir.backend.warps import check_warps
from tileir.ir import Function, Module
from tileir.passmanager.registry import Outcome, pass_


@pass_("coalesce", choices={"warps": (1, 2, 4, 8, 16)})
def coalesce(module: Module, *, warps: int = 0) -> Outcome:
    """Say which thread holds which element of every tile, so that accesses are coalesced.

    `warps` are the warps of a block: 0 for the kernel's `num_warps`, or 4 where it has none.
    Kernels alone are changed: functions that tiles are passed to have to be inlined before.

        ACCESS     neighbouring lanes access neighbouring addresses, as many at once as alignment
                   and masks allow (the paper's section 5.2.2)
        DOT        fragments of matrix instructions, or micro-tiles of every thread, cut as the
                   kernel's attributes `micro` and `nano` say (`tileir.backend.layouts.nesting`)
        SHARE      values that flow into one another share a layout, the one that needs the
                   cheapest conversions where they meet ops that have no choice
        AGAIN      ranges, splats, broadcasts and arithmetic on them are made in every layout they
                   are needed in

    A remark tells of threads that hold nothing of their own, whatever the tile: a smaller block
    would do.

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
    kernels = {f.name: _laid_out(f, warps) for f in module.functions.values() if f.kernel}
    if all(f is module.functions[name] for name, f in kernels.items()):
        return Outcome(module)
    laid_out = module.evolve(functions={**module.functions, **kernels}, stage="layouts")
    return Outcome(laid_out, tuple(r for f in kernels.values() for r in idle(f)))


def _laid_out(function: Function, warps: int) -> Function:
    """`function` with layouts, and the warps they are made for."""
    if function.is_declaration:
        return function
    stated = function.attributes.get("num_warps")
    count = warps or (stated if isinstance(stated, int) else 4)
    check_warps(function, count)
    found = assign_layouts(function, Anchors(function, Contiguity(function), count))
    return found.evolve(attributes={**found.attributes, "num_warps": count})
