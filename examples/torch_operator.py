"""A kernel as an operator of torch: autograd, `torch.compile` and fake tensors know it.

    python examples/torch_operator.py        needs torch and an NVIDIA GPU

The module is made by the builder, compiled when the operator first runs, for what its arguments
are (16-byte alignment, sizes that 16 divides), and launched on torch's current stream.
"""

import sys

from tileir.backend import Jit, jit
from tileir.builder import F32, I32, Builder, pointer
from tileir.ir import Module

BLOCK = 1024


def squared_relu(backward: bool) -> Module:
    """y = max(x, 0)^2, or the gradient g 2 max(x, 0)."""
    b = Builder()
    names = ("x", "g", "y") if backward else ("x", "y")
    with b.kernel("squared_relu", **dict.fromkeys(names, pointer(F32)), n=I32) as values:
        x, *rest, y, n = values
        at = b.program_id(axis=0) * BLOCK + b.arange(BLOCK)
        inside = at < n
        positive = b.maximum((x + at).load(inside, 0.0), 0.0)
        multiplier = 2.0 * (rest[0] + at).load(inside, 0.0) if rest else positive
        (y + at).store(positive * multiplier, inside)
    return b.module()


def operator():  # noqa: ANN201 - torch is imported here
    """The operator `tileir::squared_relu`, with its gradient."""
    import torch

    forward, backward = jit(squared_relu(False)), jit(squared_relu(True))

    def launch(kernel: Jit, *inputs: torch.Tensor) -> torch.Tensor:
        inputs = tuple(t.contiguous() for t in inputs)
        y = torch.empty_like(inputs[0])
        if y.numel():
            kernel[-(-y.numel() // BLOCK)](*inputs, y, y.numel())
        return y

    @torch.library.custom_op("tileir::squared_relu", mutates_args=(), device_types="cuda")
    def squared_relu_op(x: torch.Tensor) -> torch.Tensor:
        return launch(forward, x)

    @torch.library.custom_op("tileir::squared_relu_backward", mutates_args=(), device_types="cuda")
    def gradient(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return launch(backward, x, g)

    squared_relu_op.register_fake(
        lambda x: torch.empty_like(x, memory_format=torch.contiguous_format)
    )
    gradient.register_fake(lambda x, g: torch.empty_like(x, memory_format=torch.contiguous_format))
    squared_relu_op.register_autograd(
        lambda context, g: gradient(context.saved_tensors[0], g),
        setup_context=lambda context, inputs, output: context.save_for_backward(*inputs),
    )
    return squared_relu_op


def main() -> None:
    """Compare with torch, forwards and backwards, and let torch check the registration."""
    import torch

    if not torch.cuda.is_available():
        sys.exit("this example needs a GPU")
    squared_relu_op = operator()
    x = torch.randn(1000, 77, device="cuda", requires_grad=True)
    y = squared_relu_op(x)
    expected = torch.relu(x) ** 2
    torch.testing.assert_close(y, expected)
    (result,) = torch.autograd.grad(y.sum(), x)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(result, expected_gradient)
    torch.library.opcheck(squared_relu_op, (x,))
    sys.stdout.write("squared_relu agrees with torch, forwards and backwards\n")


if __name__ == "__main__":
    main()
