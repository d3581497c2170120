"""Pad loads of operand B to whole swizzle panels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import attrs

from tileir.analysis.uses import definitions, uses
from tileir.backend.layouts.wgmma import HALVES
from tileir.backend.tma.infer_descriptors import FARTHEST
from tileir.backend.warp_specialize.rings import as_rows
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.descriptor import DescriptorLoad, MakeDescriptor
from tileir.ops.dot import Dot
from tileir.ops.rearrange import ExtractSlice
from tileir.ops.shape import Reshape
from tileir.passmanager.registry import pass_
from tileir.types import I32, Descriptor, Tile, shape_of
from tileir.values import Constant, Value, constant

_PANELS = (32, 64, 128)
"""Bytes of rows of panels (CUDA driver API, "Tensor Map": swizzles)."""


@pass_("pad-to-swizzle-panels")
def pad_to_swizzle_panels(function: Function) -> Function:
    """Pad loads of an N-major operand B to whole swizzle panels.

    A block in shared memory is laid out in panels with rows of up to 128 bytes, and `wgmma` on
    16-bit operands reads an N-major operand panel by panel. If the rows of a block are not a
    multiple of a panel, or only of a narrow one, the pass loads more columns than the dot reads. It
    does not change loads from tensors without a row bound, since the memory after a row may not
    exist.

    before:
        define void @f(f16* %b, i32 %k, i32 %n, f16<64, 16> %x, f32<64, 40> %c) {
        entry:
          %d = make_descriptor tensor_desc<f16<16, 40>> %b, [%k, %n], [%n, i32 1]
          %y = descriptor_load f16<16, 40> %d, 0, 0
          %s = dot f32<64, 40> %x, %y, %c
          ret
        }
    after:
        define void @f(f16* %b, i32 %k, i32 %n, f16<64, 16> %x, f32<64, 40> %c) {
        entry:
          _ = make_descriptor tensor_desc<f16<16, 40>> %b, [%k, %n], [%n, i32 1]
          %0 = make_descriptor tensor_desc<f16<16, 64>> %b, [%k, %n], [%n, i32 1]
          %1 = descriptor_load f16<16, 64> %0, 0, 0
          %y = extract_slice f16<16, 40> %1, 0, 0
          %s = dot f32<64, 40> %x, %y, %c
          ret
        }
    """
    return _PanelPadder(function).function()


@attrs.frozen(eq=False)
class _PanelPadder:
    old: Function
    wide: dict[Value, Value] = attrs.field(factory=dict[Value, Value])
    """The descriptor of the padded blocks, by descriptor."""

    def function(self) -> Function:
        """The function with its loads."""
        loads = [
            op for op in self.old.ops if isinstance(op, DescriptorLoad) and self._should_pad(op)
        ]
        if not loads:
            return self.old
        descriptors = {cast(Value, op.descriptor) for op in loads}
        return self.old.with_blocks(
            {n: self._block(b, set(loads), descriptors) for n, b in self.old.blocks.items()}
        )

    def _block(self, block: Block, loads: set[DescriptorLoad], descriptors: set[Value]) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if isinstance(op, DescriptorLoad) and op in loads:
                ops += self._pad_load(op)
                continue
            ops.append(op)
            if isinstance(op, MakeDescriptor) and op.result in descriptors:
                block_ = cast(Descriptor, op.to).block
                padded = MakeDescriptor(
                    op.base, Descriptor(_pad_block(block_)), op.dimensions, padding=op.padding,
                    location=op.location,
                )  # fmt: skip
                self.wide[op.result] = padded.result
                ops.append(padded)
        return attrs.evolve(block, ops=tuple(ops))

    def _pad_load(self, op: DescriptorLoad) -> Iterator[Op]:
        """The padded load, and the extraction of the requested columns."""
        descriptor = self.wide[cast(Value, op.descriptor)]
        yield (read := DescriptorLoad(descriptor, op.indices, location=op.location))
        none = tuple(constant(I32, 0) for _ in op.indices)
        yield ExtractSlice(
            read.result, cast(Tile, op.result.type), none, results=op.results,
            location=op.location,
        )  # fmt: skip

    def _should_pad(self, op: DescriptorLoad) -> bool:
        """Whether a load would be wider in whole panels, and may be padded."""
        block, maker = op.block(), definitions(self.old).get(cast(Value, op.descriptor))
        if op.predicate is not None or block.element not in HALVES or len(block.shape) < 2:
            return False
        if not isinstance(maker, MakeDescriptor) or not _is_bounded(maker):
            return False
        return _pad_block(block) is not block and self._feeds_only_operand_b(op.result)

    def _feeds_only_operand_b(self, value: Value) -> bool:
        """Whether only dots read `value`, as operand B."""
        readers: list[Any] = list(uses(self.old).get(value, ()))
        return bool(readers) and all(
            (isinstance(r, Dot) and r.b is value and value not in (r.a, r.c))
            or (isinstance(r, Reshape) and _same_rows(r) and self._feeds_only_operand_b(r.result))
            for r in readers
        )


def _same_rows(op: Reshape) -> bool:
    return as_rows(shape_of(op.value.type)) == as_rows(shape_of(op.to))


def _is_bounded(maker: MakeDescriptor) -> bool:
    """Whether the tensor map has a row bound."""
    extent = maker.dimensions[-2]
    return not isinstance(extent, Constant) or int(extent.value) < FARTHEST


def _pad_block(block: Tile) -> Tile:
    """`block` with rows of whole panels: of 128 bytes, or of 64 where they are multiples of it."""
    size, columns = block.element.bytes, block.shape[-1]
    row, widest = columns * size, _PANELS[-1]
    if row > widest:
        padded_row = row if row % (widest // 2) == 0 else -(-row // widest) * widest
    else:
        padded_row = next(panel for panel in _PANELS if panel >= row)
    return (
        block if padded_row == row else Tile(block.element, (*block.shape[:-1], padded_row // size))
    )
