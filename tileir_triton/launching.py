"""Launches of kernels that have a version that Triton's launchers cannot launch: with tensor maps,
or with NaN as the padding of descriptors. tileir launches it itself."""

from __future__ import annotations

from typing import Any

TENSOR_MAPS = "tileir_tensor_maps"
"""The metadata of a kernel that has a version with tensor maps: the options of that version, by
name. It is empty for other kernels. Without `warp_specialize`, the version has tensor maps."""


def watch_handles() -> None:
    """Give every `CompiledKernel` that has such a version a launcher for it, from now on, where the
    settings have `maps`."""
    from triton.compiler.compiler import CompiledKernel

    kind: Any = CompiledKernel
    begin = getattr(kind, "_init_handles", None)
    if begin is None or hasattr(begin, "tileir_watches"):
        return

    def _init_handles(self: Any) -> None:
        loaded = getattr(self, "module", None) is not None
        begin(self)
        if not loaded and getattr(self.metadata, TENSOR_MAPS, None) and _are_enabled():
            _add_launcher(self)

    _init_handles.tileir_watches = True  # type: ignore[attr-defined]
    kind._init_handles = _init_handles


def _are_enabled() -> bool:
    from tileir_triton.hook import installed_settings

    settings = installed_settings()
    return settings is not None and settings.maps


def _add_launcher(kernel: Any) -> None:
    """Put the launcher before Triton's: `_run`, in releases before 3.4 `run`."""
    try:
        from tileir.frontends.triton_backend.launcher import launcher_with_maps
    except ImportError:
        return
    name = "_run" if "_run" in vars(kernel) else "run"
    setattr(kernel, name, launcher_with_maps(kernel, getattr(kernel, name)))
