"""Programs that run the kernels of public packages. Each is a function `case(device)` that makes
the inputs and returns a step to run, together with a reference step in f64 by torch if there is
one."""
# ruff: noqa: ANN001, ANN201, ANN002, ANN003, ANN202

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import small
import torch  # type: ignore[import-not-found]

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


class Step(NamedTuple):
    """A program step. `run` returns the tensors that it computes. `reference` computes the same in
    f64 (None if torch has no such operator). With `exactly`, the results must be equal, bit for
    bit."""

    run: Callable[[], Any]
    reference: Callable[[], Any] | None = None
    exactly: bool = False


Case = Callable[[str], Step]
CASES: dict[str, Case] = {}


def add(name: str, make: Case) -> None:
    """Register a case named `PACKAGE/PROGRAM`. Names that differ in numbers may be equal with
    smaller ones: the first case counts then."""
    assert name not in CASES or small.LOADED, name
    CASES.setdefault(name, make)


def case(make):
    """Register `make`, a function named `PACKAGE__PROGRAM`, as the case `PACKAGE/PROGRAM`."""
    package, _, name = make.__name__.partition("__")
    add(f"{package}/{name}", make)
    return make


def normal(device, *shape, dtype=BF16, grad=True, scale=1.0):
    results = (torch.randn(*shape, device=device, dtype=F32) * scale).to(dtype)
    return results.requires_grad_() if grad and dtype.is_floating_point else results


def tensor(device, *shape, dtype=BF16, scale=1.0):
    """Normally distributed elements, which need no gradient."""
    return normal(device, *shape, dtype=dtype, grad=False, scale=scale)


def argument(*shape, dtype=F32, scale=1.0):
    """A function that makes such a tensor on the device of a case."""
    return lambda device: tensor(device, *shape, dtype=dtype, scale=scale)


def integers(device, high, *shape, dtype=torch.int64):
    return torch.randint(high, shape, device=device, dtype=dtype)


def rms(x, w, eps=1e-6):
    """RMS normalization of rows, with weights."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


def tensors(results) -> list[Any]:
    """The tensors among `results`, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, (tuple, list)):
        return [t for r in results for t in tensors(r)]
    return []


def gradient_step(function, *inputs, reference=None, **named) -> Step:
    """A step that calls `function` and takes the gradients of its floating-point results, with
    random numbers for theirs."""
    leaves = [t for t in (*inputs, *named.values()) if _is_leaf(t)]
    weights: list[Any] = []

    def run(call=function, arguments=inputs, by_name=named, wrt=leaves):
        for leaf in wrt:
            leaf.grad = None
        results = tensors(call(*arguments, **by_name))
        results = [t for t in results if t.is_floating_point()]
        differentiable = [t for t in results if t.requires_grad]
        if not weights:
            drawn = (torch.randn(t.shape, device=t.device) for t in differentiable)
            weights.extend(w.to(BF16) for w in drawn)  # the same numbers for results of any type
        for i, (t, w) in enumerate(zip(differentiable, weights, strict=True)):
            t.backward(w.to(t.dtype), retain_graph=i + 1 < len(differentiable))
        return [*results, *(leaf.grad for leaf in wrt)]

    def exact():
        doubles = {id(leaf): leaf.detach().to(F64).requires_grad_() for leaf in leaves}
        arguments = [doubles.get(id(t), t) for t in inputs]
        by_name = {k: doubles.get(id(v), v) for k, v in named.items()}
        return run(reference, arguments, by_name, list(doubles.values()))

    return Step(run, exact if reference is not None else None)


def _is_leaf(value) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf


def forward_step(function, *inputs, reference=None, exactly=False, **named) -> Step:
    """A step that calls `function`, without gradients."""

    def run():
        with torch.no_grad():
            return tensors(function(*inputs, **named))

    def exact():
        arguments = [_double(t) for t in inputs]
        return tensors(reference(*arguments, **{k: _double(v) for k, v in named.items()}))

    return Step(run, exact if reference is not None else None, exactly)


def layer_norm_step(device, call) -> Step:
    """Layer normalization of rows in f16 by `call`, which takes them, weights, a bias and what is
    added to the variance."""
    x, w, b = (tensor(device, *shape, dtype=F16) for shape in ((8192, 4096), (4096,), (4096,)))
    return forward_step(
        lambda x, w, b: call(x, w, b, 1e-5),
        x,
        w,
        b,
        reference=lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b),
    )


def _double(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().to(F64)
    if isinstance(value, (tuple, list)):
        return type(value)(_double(v) for v in value)
    return value


def all_cases() -> dict[str, Case]:
    """The cases of all installed packages."""
    from importlib import import_module

    for package in (
        "liger", "unsloth", "fla", "fla_more", "flag_gems", "others", "inductor", "inductor_models",
        "tutorials", "matmuls", "gemms", "attentions", "mamba", "quantised", "single", "lmdeploy",
        "servers", "training", "packages_more", "wider", "low_bits", "steps", "zoo",
        "strangers", "strangers_more", "strangers_rest", "vllm", "sglang",
    ):  # fmt: skip  # sglang comes last, since it replaces a function of Triton
        import_module(f"cases_{package}")
    return CASES
