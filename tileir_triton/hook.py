"""tileir as the compiler of Triton's CUDA backend: the only module that replaces what is
Triton's.

Four stages of `CUDABackend` are replaced (TTIR text in, cubin out), and `hash`, which Triton's and
Inductor's caches have in their keys. A stage that is given Triton's own data calls Triton's own
method, so that another tool may replace the same methods before or after.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from tileir_triton.inductor import is_launched_from_cpp
from tileir_triton.settings import Settings, settings_from_environment
from tileir_triton.version import release_of

OLDEST, NEWEST = (3, 3), (3, 9)
"""The releases whose stages are known (read in their wheels)."""

_PARAMETERS = {
    "make_ttgir": ("mod", "metadata", "opt", "capability"),
    "make_llir": ("self", "src", "metadata", "options", "capability"),
    "make_ptx": ("self", "src", "metadata", "opt", "capability"),
    "make_cubin": ("self", "src", "metadata", "opt", "capability"),
    "hash": ("self",),
}
"""Parameters of the methods that are replaced, in the order in which they are passed."""


class _Hook:
    """The installed hook: the class, its original methods by name, and the settings."""

    def __init__(self, backend: Any, settings: Settings) -> None:
        self.backend, self.settings = backend, settings
        self.replaced = {name: backend.__dict__[name] for name in _PARAMETERS}
        self.own: dict[str, Callable[..., Any]] = {n: getattr(backend, n) for n in _PARAMETERS}
        self.placed: dict[str, Any] = {}


_installed: _Hook | None = None


def installed_settings() -> Settings | None:
    """The settings with which tileir compiles for Triton; None where it does not."""
    return None if _installed is None else _installed.settings


def install_where_asked() -> None:
    """Call `install` if TILEIR_IN_TRITON requests it. Raises no errors, since Triton is being
    imported."""
    try:
        settings = settings_from_environment()
        if settings.enabled:
            install(settings)
    except Exception as error:
        _warn(f"{type(error).__name__}: {error}")


def install(settings: Settings | str = "1") -> bool:
    """Let tileir compile kernels of Triton's CUDA backend, as TILEIR_IN_TRITON = `settings` does
    when Triton is imported. Whether it does now: a release of Triton that is not known is left
    untouched, with a warning."""
    global _installed
    chosen = Settings.of(settings) if isinstance(settings, str) else settings
    if _installed is not None:
        _installed.settings = chosen
        return True
    backend = _backend()
    if isinstance(backend, str):
        _warn(backend)
        return False
    hook = _Hook(backend, chosen)
    for name, method in _methods(hook).items():
        hook.placed[name] = method
        setattr(backend, name, method)
    _installed = hook
    _report_at_exit()
    return True


def uninstall() -> None:
    """Give the CUDA backend its own methods again, but for those that others replaced since."""
    global _installed
    if _installed is None:
        return
    for name, method in _installed.placed.items():
        if _installed.backend.__dict__.get(name) is method:
            setattr(_installed.backend, name, _installed.replaced[name])
    _installed = None


def _backend() -> Any:
    """The class `CUDABackend`, or why its stages are not replaced."""
    version = str(getattr(sys.modules.get("triton"), "__version__", ""))
    if not OLDEST <= release_of(version) <= NEWEST:
        first, last = (".".join(map(str, v)) for v in (OLDEST, NEWEST))
        return f"Triton {version or '?'} is not known to it, {first} to {last} are"
    backend = _cuda_backend()
    for name, parameters in _PARAMETERS.items():
        method = getattr(backend.__dict__.get(name), "__wrapped__", backend.__dict__.get(name))
        code = getattr(getattr(method, "__func__", method), "__code__", None)
        if code is None or code.co_argcount != len(parameters):
            return f"CUDABackend.{name} of Triton {version} is not as in the releases it knows"
    return backend


def _cuda_backend() -> Any:
    """The class of kernels for NVIDIA's GPUs: as Triton found it, or as it is about to find it."""
    from triton import backends

    nvidia = getattr(backends, "backends", {}).get("nvidia")
    if nvidia is not None:  # 3.3 loads modules of backends by their files, not by their names
        return nvidia.compiler
    from triton.backends.nvidia.compiler import CUDABackend

    return CUDABackend


def _methods(hook: _Hook) -> dict[str, Any]:
    """The replacements of methods of the CUDA backend."""
    own = hook.own

    def make_ttgir(mod: Any, metadata: Any, opt: Any, capability: Any) -> Any:
        result = _compile(hook, mod, metadata, opt, capability)
        return own["make_ttgir"](mod, metadata, opt, capability) if result is None else result

    def make_llir(self: Any, src: Any, metadata: Any, options: Any, capability: Any) -> Any:
        if _is_ours(src):
            return src.at("llir")
        return own["make_llir"](self, src, metadata, options, capability)

    def make_ptx(self: Any, src: Any, metadata: Any, opt: Any, capability: Any) -> Any:
        if _is_ours(src):
            return src.ptx(self)
        return own["make_ptx"](self, src, metadata, opt, capability)

    def make_cubin(self: Any, src: Any, metadata: Any, opt: Any, capability: Any) -> Any:
        cubin = self.__dict__.get("_tileir_cubins", {}).pop(src, None)
        return own["make_cubin"](self, src, metadata, opt, capability) if cubin is None else cubin

    def hash(self: Any) -> str:
        return f"{_key(hook)}{own['hash'](self)}"

    return {
        "make_ttgir": staticmethod(make_ttgir), "make_llir": make_llir, "make_ptx": make_ptx,
        "make_cubin": make_cubin, "hash": hash,
    }  # fmt: skip


def _compile(hook: _Hook, mod: Any, metadata: Any, opt: Any, capability: Any) -> Any:
    """The kernel as tileir compiled it; None for Triton to compile it."""
    instrumented = bool(getattr(hook.backend, "instrumentation", None))
    try:
        from tileir.frontends.triton_backend.stages import compile_ttir
    except ImportError as error:
        if hook.settings.strict:
            raise
        _warn(str(error))
        return None
    return compile_ttir(
        hook.settings, str(mod), metadata, opt, capability, instrumented, _descriptor_flags
    )


def _descriptor_flags() -> int:
    """The flags that Triton's launcher passes with a descriptor made by the host.

    The installed release decomposes a descriptor into address, extents, strides, flags, extents,
    strides. The first flag states whether padding is NaN, another one whether f32 is rounded to
    tf32.
    """
    from triton.backends.nvidia.driver import make_tensordesc_arg

    extra_parameters = make_tensordesc_arg.__code__.co_argcount - 2
    words = make_tensordesc_arg(_Described(), None, *[None] * extra_parameters)
    return len(words) - len(("address", "extent", "stride", "extent", "stride"))


class _Described:
    """A descriptor of one dimension."""

    base, shape, strides, padding, round_f32_to_tf32 = None, (1,), (1,), "zero", False


def _is_ours(src: Any) -> bool:
    return hasattr(src, "tileir_kernel")


def _key(hook: _Hook) -> str:
    """The version of tileir that the machine code of a kernel depends on, for the keys of
    caches."""
    from tileir_triton.launching import watch_handles
    from tileir_triton.version import key
    from tileir_triton.watching import watch_loading

    watch_loading()
    watch_handles()
    return f"tileir-{key()}-{hook.settings}-{'cpp-' if is_launched_from_cpp() else ''}"


def _report_at_exit() -> None:
    """Print a table at exit if TILEIR_IN_TRITON_REPORT requests one."""
    if os.environ.get("TILEIR_IN_TRITON_REPORT", "0") not in ("", "0"):
        atexit.register(_show_report)


def _show_report() -> None:
    from tileir_triton.reporting import show_at_exit

    show_at_exit()


_warned: set[str] = set()


def _warn(reason: str) -> None:
    """Say once that tileir compiles nothing, and why."""
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(f"tileir leaves Triton as it is: {reason}", RuntimeWarning, stacklevel=2)
