"""Benchmark of the convolutions of Lamont et al. on one GPU, with and without a staged halo
(`stage_halo`).

    python benchmarks/convolution.py [--size N] [--out FILE.json]

The image has N x N elements (4096 by default) of f32, and there is one window, as in the document.
The table has microseconds of the median launch, with a cold L2, of the kernels of
`tests/corpus/lamont_conv2d` with `stage_halo` off and on, and of `torch.nn.functional.conv2d`
(cuDNN, without TF32). A line is printed only if both kernels agree with a float64 convolution.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import attrs
import checks
import timing
import torch

import tileir.backend
from tileir.backend.driver.launch import LoadedKernel
from tileir.textual import parse

FOLDER = Path(__file__).parents[1] / "tests" / "corpus" / "lamont_conv2d"
BLOCK = (16, 32)


@attrs.frozen
class Shape:
    """The shape of a convolution."""

    window: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    def torch(self, x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        """The same convolution by torch, of a matrix without batch and channels."""
        steps = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        return torch.nn.functional.conv2d(x[None, None], k[None, None], **steps)[0, 0]


SHAPES = {
    "conv2d": Shape(3),
    "conv2d_strided": Shape(3, stride=2),
    "conv2d_padded": Shape(5, padding=2),
    "conv2d_dilated": Shape(3, padding=2, dilation=2),
}


def kernel(name: str, windows: bool) -> LoadedKernel:
    """A kernel of the folder, for this GPU."""
    module = parse((FOLDER / f"{name}.tir").read_text(), f"{name}.tir")
    target = "sm_" + "".join(map(str, torch.cuda.get_device_capability()))
    return LoadedKernel(tileir.backend.compile(module, target, {"stage_halo": windows}))


def line(name: str, size: int) -> dict[str, Any]:
    """Microseconds by variant. Raises AssertionError for a wrong result."""
    shape = SHAPES[name]
    x = torch.randn(size, size, device="cuda")
    k = torch.randn(shape.window, shape.window, device="cuda")
    expected = shape.torch(x.double(), k.double())
    y = torch.empty(expected.shape, device="cuda")
    grid = tuple(-(-n // b) for n, b in zip(y.shape, BLOCK, strict=True))
    times: dict[str, Any] = {"name": name, "size": size}
    for label, windows in (("one by one", False), ("staged", True)):
        compiled = kernel(name, windows)
        y.fill_(float("nan"))
        arguments = (x, k, y, size, size, *y.shape)
        compiled[grid](*arguments)
        some, exact = checks.some_rows(y, expected)
        wrong = checks.fault(some, *checks.near(exact, 1e-5))
        assert wrong is None and not y.isnan().any(), (name, label, wrong)
        times[label] = timing.median(
            lambda compiled=compiled, arguments=arguments: compiled[grid](*arguments), ()
        )
    times["cudnn"] = timing.median(lambda: shape.torch(x, k), ())
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--out", help="write every figure there, as JSON")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    lines = [line(name, options.size) for name in SHAPES]
    print(f"{'':16} {'one by one':>11} {'staged':>9} {'cudnn':>9} {'ratio':>6}")
    for x in lines:
        ratio = x["one by one"] / x["staged"]
        row = f"{x['one by one']:11.1f} {x['staged']:9.1f} {x['cudnn']:9.1f} {ratio:6.2f}"
        print(f"{x['name']:16} {row}")
    if options.out:
        Path(options.out).write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
