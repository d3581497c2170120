"""The stages of Triton's CUDA backend: TTIR text in, cubin out."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

import tileir
from tileir.backend import CompiledKernel, compile as compile_module
from tileir.backend.permission import library_calls
from tileir.backend.processors import MAX_REGISTERS
from tileir.errors import (
    Diagnostic,
    InfeasibleError,
    TileirError,
    UnsupportedError,
    from_signal_handler,
)
from tileir.frontends.triton_backend.descriptors import (
    descriptor_places,
    last_extents,
    with_launcher_parameters,
    with_made_descriptors,
    with_multiples,
)
from tileir.frontends.triton_backend.launcher import is_fused, options_with_maps, read_ttir
from tileir.ir import Module
from tileir.process import collector_paused
from tileir_triton.inductor import is_launched_from_cpp
from tileir_triton.launching import TENSOR_MAPS
from tileir_triton.reporting import COMPILED_BY, REASON, KernelRecord, note
from tileir_triton.settings import Settings

_NO_ASSEMBLER = "TIR0704"
"""The error code of a missing nvJitLink; Triton has its own ptxas."""

_TOO_MUCH_SHARED_MEMORY = "TIR0708"

_FEWEST_STAGES = 2
"""The fewest stages to which a kernel is reduced: with one stage nothing is loaded ahead."""

_REGISTER_PERCENT = 210
"""The limit for the tiles of an operation: twice the registers of a thread. Programs for Triton
have such tiles, for Triton has no limit, and ptxas spills what does not fit."""

_FEWEST_REGISTERS = 32
"""The smallest register limit of tileir; Triton accepts smaller ones."""


@attrs.frozen(slots=False, eq=False)
class Carrier:
    """The result of a stage for Triton: the compiled kernel. Its text is that of the stage, which
    Triton writes to its cache, unless it stores only binaries."""

    tileir_kernel: CompiledKernel
    stage: str = "ttgir"

    def __str__(self) -> str:
        kernel = self.tileir_kernel
        return kernel.llvm if self.stage == "llir" else str(kernel.tir_at("barriers"))

    def at(self, stage: str) -> Carrier:
        """The same at the stage `llir`."""
        return Carrier(self.tileir_kernel, stage)

    def ptx(self, backend: Any) -> str:
        """PTX, whose cubin `backend` finds by it at its next stage."""
        ptx = self.tileir_kernel.ptx
        code = self.tileir_kernel.code
        if code is not None:
            backend.__dict__.setdefault("_tileir_cubins", {})[ptx] = code.cubin
        return ptx


@collector_paused()
def compile_ttir(
    settings: Settings, text: str, metadata: dict[str, Any], options: Any, capability: int,
    instrumented: bool = False, descriptor_flags: Callable[[], int] = lambda: 0,
) -> Carrier | None:  # fmt: skip
    """Compile a TTIR text; `metadata` receives everything that Triton's launchers read.

    Returns None if Triton is to compile the kernel; the reason is recorded. `descriptor_flags` is
    the number of flags that Triton's launcher passes with a descriptor made by the host. With
    strict settings, raises `TileirError` instead. Raises Triton's `OutOfResources` if the kernel
    exceeds the target's resources, so that autotuners skip the configuration.
    """
    name, begin = kernel_name(text), time.perf_counter()
    if not settings.covers(name):
        _left(metadata, name, options, "its name is not among those asked for", begin)
        return None
    try:
        refused = _refusal(metadata, options, instrumented)
        described = "!tt.tensordesc<" in _parameters(text)
        if described and not refused:
            refused = _refusal_of_descriptors(settings, metadata, options)
        if refused:
            raise UnsupportedError(Diagnostic("TIR0706", refused))

        fewer = _reads_warps(metadata)

        def compile_with(chosen: Any) -> tuple[Module, CompiledKernel]:
            module = passed = _read(text, name, chosen)
            if described:
                passed = with_launcher_parameters(module, name, descriptor_flags())
            return module, _through_tileir(passed, name, chosen, capability, fewer)

        try:
            module, kernel = compile_with(options)
        except InfeasibleError as error:
            if error.code != _TOO_MUCH_SHARED_MEMORY or options.num_stages <= _FEWEST_STAGES:
                raise
            options = _with_one_stage_less(options)
            module, kernel = compile_with(options)
    except InfeasibleError as error:
        if settings.strict:
            raise _out_of_resources(str(error)) from error
        _left(metadata, name, options, str(error), begin)
    except TileirError as error:
        if settings.strict:
            raise
        _left(metadata, name, options, str(error), begin)
    except Exception as error:
        if settings.strict or from_signal_handler(error):
            raise
        reason = f"a defect of tileir: {type(error).__name__}: {error}"
        _left(metadata, name, options, reason, begin)
    else:
        metadata.update(_metadata(kernel))
        launched = _options_of_launches(module, kernel, options) if settings.maps else {}
        metadata[TENSOR_MAPS] = launched
        _record(metadata, name, "tileir", "", kernel.plan.num_warps, begin)
        return Carrier(kernel)
    return None


def kernel_name(text: str) -> str:
    """The name of the kernel: of the public function."""
    result = re.search(r'tt\.func public @(?:"([^"]+)"|([\w.$]+))', text)
    return (result[1] or result[2]) if result else ""


def _with_one_stage_less(options: Any) -> Any:
    """The options with one stage less: Triton's pipeliner gives some loads fewer stages than a loop
    has, so that a loop with many may fit where every load had as many."""
    changed = copy.copy(options)
    object.__setattr__(changed, "num_stages", options.num_stages - 1)  # Triton's are frozen
    return changed


def _refusal(metadata: dict[str, Any], options: Any, instrumented: bool) -> str:
    """The reason why Triton has to compile a kernel with these options; '' if there is none."""
    if getattr(options, "instrumentation_mode", "") or instrumented:
        return "it is compiled with instrumentation"
    if options.num_ctas != 1 and "num_ctas" not in metadata:  # jax-triton's start with nothing
        return f"its launcher starts clusters of {options.num_ctas} blocks (num_ctas)"
    if not getattr(options, "enable_reflect_ftz", True):
        return "its functions keep subnormal numbers (enable_reflect_ftz=False)"
    limit = _register_limit(options)
    if limit is not None and limit < _FEWEST_REGISTERS:
        return f"a thread may use {limit} registers, of which tileir needs {_FEWEST_REGISTERS}"
    return ""


def _register_limit(options: Any) -> int | None:
    """The limit of the registers of a thread that the options state, if they state one."""
    limit = getattr(options, "maxnreg", None)
    return None if limit is None else min(limit, MAX_REGISTERS)


def _refusal_of_descriptors(settings: Settings, metadata: dict[str, Any], options: Any) -> str:
    """The reason why Triton has to compile a kernel with host descriptors; '' if there is none.
    tileir has to launch it if a descriptor has NaN as padding."""
    if not settings.maps:
        return "it takes descriptors of the host, and no-maps lets Triton launch every kernel"
    if "num_ctas" not in metadata:
        return "XLA launches it with tensor maps for its descriptors"
    if is_launched_from_cpp():
        return (
            "C++ code of Inductor (AOTInductor, cpp_wrapper) launches it with tensor maps for the "
            "descriptors of the host, as Triton's compiler lays them out"
        )
    needed = _needs_tritons_launcher(options)
    return f"it takes descriptors of the host, and {needed}" if needed else ""


def _needs_tritons_launcher(options: Any) -> str:
    """The reason why tileir cannot launch a kernel with these options; '' if it can."""
    for name in ("launch_pdl", "launch_cooperative_grid"):
        if getattr(options, name, None):
            return f"only Triton's launcher has {name}"
    return ""


def _read(text: str, name: str, options: Any) -> Module:
    """The module of the kernel. Raises TileirError."""
    overlapped = bool(getattr(options, "launch_pdl", False))
    return read_ttir(text, name, _warps_and_stages(options), is_fused(options), overlapped)


def _reads_warps(metadata: dict[str, Any]) -> bool:
    """Whether the launcher reads the number of warps from the metadata. jax-triton, whose metadata
    start empty, reads it from the options. C++ code of Inductor may."""
    return "num_ctas" in metadata and not is_launched_from_cpp()


def _through_tileir(
    module: Module, name: str, options: Any, capability: int, fewer: bool
) -> CompiledKernel:
    """The kernel with its machine code, unless only Triton has an assembler. If `fewer` warps than
    the options say may be launched, a block has none that only duplicate elements of others, so
    that more blocks are resident. Raises TileirError."""
    chosen = {
        **_warps_and_stages(options),
        "warp_specialize": False, "permit": ("inline_asm", "extern"),
        "libraries": _libraries(module, options),
        "max_registers": _register_limit(options),
        "limits": {"register_percent": _REGISTER_PERCENT},
    }  # fmt: skip
    kernel = compile_module(module, _target(capability), chosen, name, idle_warps=not fewer)
    if kernel.plan.symbol != name:
        message = f"its symbol would be {kernel.plan.symbol}, and Triton looks for {name}"
        raise UnsupportedError(Diagnostic("TIR0706", message))
    try:
        return attrs.evolve(kernel, code=kernel.machine_code)
    except TileirError as error:
        if error.code != _NO_ASSEMBLER:
            raise
        return kernel


def _options_of_launches(module: Module, kernel: CompiledKernel, options: Any) -> dict[str, Any]:
    """The options of the version of `kernel` that tileir launches; empty if there is none, or if a
    launch requires Triton's launcher. Warps with roles have registers of their own: a kernel with
    `maxnreg` has no tensor maps."""
    if _needs_tritons_launcher(options):
        return {}
    name, target = kernel.plan.kernel, kernel.plan.target
    chosen, limit = _warps_and_stages(options), _register_limit(options)
    parameters = module.functions[name].parameters
    places = descriptor_places(parameters)
    if limit:
        limited = {**chosen, "max_registers": limit, "warp_specialize": False}
        return limited if places else {}
    try:
        described = with_made_descriptors(module, name, places)
        usual = with_multiples(described, name, last_extents(parameters))
        with_maps = options_with_maps(usual, name, chosen, target)
    except TileirError:  # the kernel without is compiled
        with_maps = {}
    return with_maps or ({**chosen, "warp_specialize": False} if places else {})


def _libraries(module: Module, options: Any) -> tuple[str, ...]:
    """The functions without a formula that `module` calls, from the files of LLVM bitcode that
    the option `extern_libs` names, libdevice among them. Raises TileirError for one that none
    has."""
    calls = library_calls(module)
    if not calls:
        return ()
    from tileir.backend.nvptx.libraries import functions_of  # few kernels call such functions

    symbols, texts = set(calls), list[str]()
    for _, path in getattr(options, "extern_libs", None) or ():
        text, defined = functions_of(Path(path).read_bytes(), symbols)
        symbols -= defined
        texts += [text] if defined else []
    if symbols:
        call: Any = calls[min(symbols)]
        message = (
            f"no library of extern_libs has the function {call.symbol}: launch the kernel with "
            f"extern_libs={{{call.library!r}: PATH}}, a file of LLVM bitcode that has it"
        )
        raise UnsupportedError(Diagnostic("TIR0706", message, call.location))
    return tuple(texts)


def _warps_and_stages(options: Any) -> dict[str, int]:
    """The numbers of warps and stages from Triton's options."""
    return {"num_warps": _num_warps(options), "num_stages": max(options.num_stages, 1)}


def _num_warps(options: Any) -> int:
    """Warps of a block. What Triton gives a cluster of `num_ctas` blocks is one block here, which
    has the warps of all of them, so that a thread has as many elements as Triton's has."""
    most = max(options.num_warps, _MOST_WARPS_OF_A_CLUSTER)
    return min(options.num_warps * getattr(options, "num_ctas", 1), most)


_MOST_WARPS_OF_A_CLUSTER = 16
"""The maximum number of warps at which a thread has at least 128 registers."""


def _parameters(text: str) -> str:
    """The line of the kernel's parameters."""
    return text[text.find("tt.func public") :].partition("\n")[0]


def _target(capability: int) -> str:
    """The name of the target with that compute capability, with its architecture-specific features
    if tileir uses them."""
    specific = f"sm_{capability}a"
    return specific if specific in tileir.backend.TARGETS else f"sm_{capability}"


def _metadata(kernel: CompiledKernel) -> dict[str, Any]:
    """The metadata of a kernel that Triton's launchers, Inductor, AOTInductor and jax-triton read
    (`triton/backends/nvidia/driver.py`, `torch/_inductor/runtime/static_triton_launcher.py`)."""
    plan = kernel.plan
    return {
        "name": plan.symbol, "num_warps": plan.num_warps, "num_ctas": 1,
        "shared": plan.shared if plan.dynamic else 0, "tmem_size": 0, "cluster_dims": plan.cluster,
        "global_scratch_size": 0, "global_scratch_align": 1,
        "profile_scratch_size": 0, "profile_scratch_align": 1, "tensordesc_meta": [],
    }  # fmt: skip


def _left(metadata: dict[str, Any], name: str, options: Any, reason: str, begin: float) -> None:
    """Record that Triton compiles the kernel, with the reason."""
    _record(metadata, name, "triton", reason, options.num_warps, begin)


def _record(
    metadata: dict[str, Any], name: str, compiler: str, reason: str, num_warps: int, begin: float
) -> None:
    version = tileir.__version__ if compiler == "tileir" else metadata.get("triton_version", "")
    metadata[COMPILED_BY], metadata[REASON] = f"{compiler} {version}".strip(), reason
    took = (time.perf_counter() - begin) * 1e3
    key = str(metadata.get("hash", ""))
    note(KernelRecord(name, compiler, reason, num_warps, took, key=key))


def _out_of_resources(reason: str) -> Exception:
    """Triton's error for a configuration that exceeds the resources of the GPU."""
    from triton.runtime.errors import OutOfResources

    return OutOfResources(0, 0, reason)
