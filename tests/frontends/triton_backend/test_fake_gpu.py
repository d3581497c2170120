"""A GPU that is not there: what asks for it, by name or by number, gets tensors without memory."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PUBLIC = Path(__file__).resolve().parents[3] / "benchmarks" / "public"
PROGRAM = """
import torch
from fake_gpu import fake_gpu

with fake_gpu():
    for device in ("cuda", "cuda:0", 0):
        drawn = torch.empty(4, device=device)
        print(drawn.is_cuda, torch.zeros_like(drawn).shape)
    counts = torch.empty(3, device="cuda", dtype=torch.int64)
    for named in ({}, {"output_size": 7}):
        print(counts.repeat_interleave(counts, **named).shape)
"""


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton")),
    reason="needs torch and Triton",
)
def test_a_device_is_given_by_name_or_number():
    """Counts of repetitions are ones, as all values that shapes depend on."""
    program = f"import sys; sys.path.insert(0, {str(PUBLIC)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    *drawn, once, seven = done.stdout.decode().splitlines()
    assert drawn == ["True torch.Size([4])"] * 3
    assert (once, seven) == ("torch.Size([3])", "torch.Size([7])")


OPERATOR = """
import torch
from fake_gpu import fake_gpu

@torch.library.custom_op("tileir_tests::copied", mutates_args=())
def copied(x: torch.Tensor) -> torch.Tensor:
    print("run")
    return torch.empty(x.shape, device=x.device)

with fake_gpu():
    x = torch.empty(4, device="cuda")
    for call in (copied, torch.ops.tileir_tests.copied):
        print(call(x).is_cuda)
"""


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton")),
    reason="needs torch and Triton",
)
def test_operators_of_libraries_are_run():
    """They launch kernels, which are to be compiled; PyTorch alone would ask for the results'
    shapes."""
    program = f"import sys; sys.path.insert(0, {str(PUBLIC)!r})\n{OPERATOR}"
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    assert done.stdout.decode().split() == ["run", "True"] * 2


REGISTERED = """
import torch
from fake_gpu import cpu_as_gpu

with cpu_as_gpu():
    library = torch.library.Library("aten", "IMPL")
    ones = lambda x: torch.ones(x.shape, device=torch.device("cuda"))
    library.impl("neg", ones, "CUDA")
    library.impl("abs", ones, "Meta")
    x = torch.zeros(2, device="cuda")
    print(torch.neg(x).tolist(), torch.abs(x).tolist())
    own = torch.library.Library("tileir_both", "DEF")
    own.define("two(Tensor x) -> Tensor")
    own.impl("two", lambda x: 2 + x, "CPU")
    own.impl("two", ones, "CUDA")
    print(torch.ops.tileir_both.two(x).tolist())
    print(torch.histc(torch.tensor([0, 2, 2]), bins=3, min=0, max=2).tolist())

    class Scale(torch.autograd.Function):
        forward = staticmethod(lambda context, x: 3 * x)
        backward = staticmethod(lambda context, g: 3 * torch.ones(2, device="cuda") * g)

    x = torch.ones(2, requires_grad=True)
    y = Scale.apply(x)
    print(torch.autograd.grad(y, x, 2 * torch.ones(2))[0].tolist())
    print(torch.autograd.grad(Scale.apply(x).sum(), [x])[0].tolist())
    generator = torch.Generator(device="cuda").manual_seed(3)
    print(torch.randint(9, (2,), device="cuda", generator=generator).tolist() ==
          torch.randint(9, (2,), generator=torch.Generator().manual_seed(3)).tolist())
"""


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "triton", "tileir_triton")),
    reason="needs torch and Triton with the backend cpu",
)
def test_implementations_for_gpus_run_on_the_cpu():
    """Such as those that FlagGems registers while its operators replace PyTorch's. The same
    applies to gradients, and to operators that PyTorch has for GPUs alone."""
    program = f"import sys; sys.path.insert(0, {str(PUBLIC)!r})\n{REGISTERED}"
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE)
    assert done.stdout.decode().splitlines() == [
        "[1.0, 1.0] [0.0, 0.0]", "[2.0, 2.0]", "[1, 0, 2]", "[6.0, 6.0]", "[3.0, 3.0]", "True",
    ]  # fmt: skip
