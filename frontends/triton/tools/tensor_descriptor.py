"""Descriptors of tensors that the host makes and passes to kernels."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.frontends.triton.errors import launch_error


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(map(int, values))


@attrs.define(eq=False)
class TensorDescriptor:
    """The strided tensor at the beginning of `base`, read and written in blocks of `block_shape`,
    which a hook of `autotune` may set. `shape` and `strides` count elements, and the last
    dimension is contiguous. Raises LaunchError where lengths differ or it is not."""

    base: Any
    shape: tuple[int, ...] = attrs.field(converter=_numbers)
    strides: tuple[int, ...] = attrs.field(converter=_numbers)
    block_shape: Any
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __attrs_post_init__(self) -> None:
        if not len(self.shape) == len(self.strides) == len(self.block_shape) > 0:
            raise launch_error(
                "shape, strides and block_shape of a descriptor must be equally long"
            )
        if self.strides[-1] != 1:
            raise launch_error(f"the last stride of a descriptor is 1, not {self.strides[-1]}")

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Any, padding: str = "zero", round_f32_to_tf32: bool = False
    ) -> TensorDescriptor:
        """All of an array, of numpy or of another library; `round_f32_to_tf32` has no effect."""
        return TensorDescriptor(
            tensor, tensor.shape, _strides(tensor), block_shape, padding, round_f32_to_tf32
        )


def _strides(tensor: Any) -> Any:
    """Strides in elements: torch has a method for them, numpy and CuPy count bytes."""
    stride: Any = getattr(tensor, "stride", None)
    if callable(stride):
        return stride()
    return _numbers(n // tensor.itemsize for n in tensor.strides)
