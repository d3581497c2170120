"""Prints where Triton runs kernels, `cpu` or `gpu`, on a machine on which torch finds a GPU.
torch is a stand-in, which says that there is a GPU."""

import sys
from types import ModuleType, SimpleNamespace

torch = ModuleType("torch")
torch.cuda = SimpleNamespace(is_available=lambda: True)  # type: ignore[attr-defined]
torch.version = SimpleNamespace(hip=None)  # type: ignore[attr-defined]
sys.modules["torch"] = torch

from triton.backends import backends  # type: ignore[import-not-found]  # noqa: E402
from triton.runtime.driver import driver  # type: ignore[import-not-found]  # noqa: E402

active = {name for name, backend in backends.items() if backend.driver.is_active()}
# Triton's own driver would load the library of a GPU, which is not there
print("gpu" if active == {"nvidia"} else driver.active.get_current_target().backend)
