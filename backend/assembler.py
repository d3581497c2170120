"""PTX to cubin through ptxas or nvJitLink, which need no GPU and no CUDA toolkit."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from tileir.backend.ptxas import assemble_with_ptxas, is_too_old, ptxas
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic

_LARGE = 5 << 16
"""Characters of PTX above which ptxas schedules with less effort: it takes more than linear time
otherwise. Of 585 kernels of public libraries three have more than 2^18. With full effort one of
280,000 has less in local memory, and one of 262,000 takes 168 registers instead of 208; one of
460,000 takes 32 registers, and five times as much local memory."""

_PTX_INPUT = 2
"""NVJITLINK_INPUT_PTX (nvJitLink API, nvJitLinkInputType)."""

_UNRECOGNIZED_OPTION = 1
"""NVJITLINK_ERROR_UNRECOGNIZED_OPTION (nvJitLinkResult)."""

_ANEW = b"-no-cache"
"""The option that disables the driver's cache. With a driver, nvJitLink otherwise searches that
cache, which takes longer than assembling a small kernel and does not report registers."""

_OLD = "nvJitLink 12.5 or newer is needed"


@attrs.frozen
class Assembled:
    """Machine code and its resources: per thread `registers` and spilled bytes, per block `shared`
    bytes of static shared memory."""

    cubin: bytes = attrs.field(repr=False)
    registers: int
    spills: int
    shared: int
    stack: int
    warnings: tuple[str, ...] = ()
    """The assembler's warnings about performance."""


def assemble(ptx: str, kernel: str, target: Target, libraries: Sequence[str] = ()) -> Assembled:
    """Assemble `ptx`, and link the PTX in `libraries`.

    `ptxas` assembles whole programs; it is used if there are no libraries and an installed version
    supports the target. Otherwise nvJitLink links the libraries. It uses more registers for the
    same code, so fewer warps are resident.

    Raises `CompileError` (TIR0705) with the assembler's log.
    """
    tool = None if libraries else ptxas()
    if tool is None:
        return _link(ptx, kernel, target, libraries)
    options = ["-O1"] * (len(ptx) > _LARGE) + ["-lineinfo"] * ("\t.loc" in ptx)
    try:
        return _parse_log(*assemble_with_ptxas(tool, ptx, target, options))
    except CompileError as error:
        if not is_too_old(error):
            raise
        return _link(ptx, kernel, target, libraries)


def _link(ptx: str, kernel: str, target: Target, libraries: Sequence[str]) -> Assembled:
    """Assemble and link by nvJitLink."""
    library = _library()
    options = [f"-arch={target.name}".encode(), b"-verbose", b"-O3", _ANEW]
    options += [b"-Xptxas=-O1"] if len(ptx) > _LARGE else []
    options += [b"-lineinfo"] if "\t.loc" in ptx else []
    handle = ctypes.c_void_p()
    array = (ctypes.c_char_p * len(options))(*options)
    created = library.nvJitLinkCreate(ctypes.byref(handle), len(options), array)
    _check(created, "", _OLD if created == _UNRECOGNIZED_OPTION else "")
    try:
        for text in (ptx, *libraries):
            code = text.encode()
            added = library.nvJitLinkAddData(handle, _PTX_INPUT, code, len(code), kernel.encode())
            _check(added, kernel, _log(library, handle, "Error"))
        _check(library.nvJitLinkComplete(handle), kernel, _log(library, handle, "Error"))
        cubin = _linked_cubin(library, handle)
        return _parse_log(cubin, _log(library, handle, "Info"))
    finally:
        library.nvJitLinkDestroy(ctypes.byref(handle))


def _parse_log(cubin: bytes, log: str) -> Assembled:
    def number(pattern: str) -> int:
        return max((int(n) for n in re.findall(pattern, log)), default=0)

    return Assembled(
        cubin,
        registers=number(r"Used (\d+) registers"),
        spills=number(r"(\d+) bytes spill stores"),
        shared=number(r"(\d+) bytes smem"),
        stack=number(r"(\d+) bytes stack frame"),
        warnings=tuple(line for line in log.splitlines() if "(C7" in line),
    )


def _linked_cubin(library: Any, handle: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(library.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)), "", "")
    buffer = ctypes.create_string_buffer(size.value)
    _check(library.nvJitLinkGetLinkedCubin(handle, buffer), "", "")
    return buffer.raw


def _log(library: Any, handle: ctypes.c_void_p, name: str) -> str:
    size = ctypes.c_size_t()
    if getattr(library, f"nvJitLinkGet{name}LogSize")(handle, ctypes.byref(size)) or not size.value:
        return ""
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvJitLinkGet{name}Log")(handle, buffer)
    return buffer.value.decode(errors="replace")


def _check(status: int, kernel: str, log: str) -> None:
    if status:
        message = f"nvJitLink fails with status {status} on {kernel or 'the module'}: {log.strip()}"
        raise CompileError(Diagnostic("TIR0705", message))


_ENTRY_POINTS = (
    "Create", "Destroy", "AddData", "Complete", "GetLinkedCubinSize", "GetLinkedCubin",
    "GetErrorLogSize", "GetErrorLog", "GetInfoLogSize", "GetInfoLog",
)  # fmt: skip


@cache
def _library() -> Any:
    loaded = ctypes.CDLL(str(_find()))

    class Library:
        """nvJitLink's C functions under their names without versions."""

    for name in _ENTRY_POINTS:
        setattr(Library, f"nvJitLink{name}", staticmethod(_function(loaded, f"nvJitLink{name}")))
    return Library


def _function(library: Any, name: str) -> Callable[..., int]:
    """The C function `name`, or its newest versioned symbol `__name_13_0` and the like."""
    versions = ((13, n) for n in range(9, -1, -1)), ((12, n) for n in range(9, -1, -1))
    for suffix in ("", *(f"_{a}_{b}" for group in versions for a, b in group)):
        function = getattr(library, f"{'__' if suffix else ''}{name}{suffix}", None)
        if function is not None:
            function.restype = ctypes.c_int
            function.argtypes = _ARGUMENTS.get(name)
            return function
    raise CompileError(Diagnostic("TIR0704", f"this nvJitLink has no {name}"))


_ARGUMENTS: dict[str, list[Any]] = {
    "nvJitLinkAddData": [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p
    ],
}  # fmt: skip


def _find() -> Path:
    """libnvJitLink of the PyPI package, the newest CUDA version first."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    libraries = sorted(p for root in roots for p in Path(root).glob("**/libnvJitLink.so*"))
    if not libraries:
        message = "assembling needs nvJitLink: pip install 'tileir[cu13]' or nvidia-nvjitlink"
        raise CompileError(Diagnostic("TIR0704", message))
    return libraries[-1]
