"""What the tests of frontends share."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tileir.backend.cpu import executor


@pytest.fixture(autouse=True)
def unoptimised_native_code(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the default run LLVM does not optimise the code for the CPU, which would take a tenth of
    the time of all tests: those of frontends are about the meaning of programs. It does in slow
    tests, and in the tests of the CPU, of workloads and of examples."""
    if request.node.get_closest_marker("slow") is None:
        compiled: Callable[..., Any] = executor.compile_kernel
        monkeypatch.setattr(executor, "compile_kernel", partial(compiled, opt_level=0))
