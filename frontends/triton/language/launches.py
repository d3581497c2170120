"""Launch control from inside a kernel."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.builtin import CompileScope, builtin
from tileir.frontends.triton.language.debugging import refused_function

_WARP = 32


@builtin
def gdc_wait(s: CompileScope) -> None:
    """Wait for the kernels before this one: they have ended, as no launch here overlaps them."""


@builtin
def gdc_launch_dependents(s: CompileScope) -> None:
    """Let kernels that depend on this one begin early: none was launched to overlap it."""


@builtin
def num_warps(s: CompileScope) -> int:
    """Warps of a program instance, a constexpr. Raises KernelError where the compiler chooses."""
    result: Any = s.b.current.header.attributes.get("num_warps")
    if result is None:
        raise KernelError("num_warps is not known: the compiler chooses it after this kernel")
    return int(result)


@builtin
def num_threads(s: CompileScope) -> int:
    """Threads of a program instance, a constexpr. Raises KernelError as `num_warps`."""
    return _WARP * num_warps.apply(s)


smid = refused_function("smid", "the number of the multiprocessor is not available")
