"""Triton's backend for the target `cpu`: TTIR as Triton writes it, then the text of a module of
tileir, which the driver runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from triton.backends.compiler import BaseBackend


@dataclass(frozen=True)
class CPUOptions:
    """Options of a kernel: those that any release from 3.3 to 3.9 asks a backend for, and those of
    kernels written for GPUs, which Triton refuses where a backend does not know them."""

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 1
    warp_size: int = 32
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    num_buffers_warp_spec: int = 0
    num_consumer_groups: int = 0
    reg_dec_producer: int = 0
    reg_inc_consumer: int = 0
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4nv", "fp8e5")
    deprecated_fp8_dtypes: tuple[str, ...] = ()
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[Any, ...] = ()
    debug: bool = False
    sanitize_overflow: bool = False
    backend_name: str = "cpu"
    arch: str = "cpu"
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    ir_override: str | None = None
    ptx_version: int | None = None
    ptx_options: str | None = None
    min_shared_mem: int | None = None
    clc: bool = False
    sched4reg: bool = False
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1
    allow_flush_denorm: bool = False
    schedule_hint: str = "none"

    def __post_init__(self) -> None:
        """Raises AssertionError, as Triton's other backends do, for a count that no GPU takes."""
        if self.num_warps < 1 or self.num_warps & (self.num_warps - 1):
            raise AssertionError(f"num_warps must be a power of 2, and is {self.num_warps}")
        libraries = (
            self.extern_libs.items() if isinstance(self.extern_libs, dict) else self.extern_libs
        )
        object.__setattr__(self, "extern_libs", tuple(libraries))

    def hash(self) -> str:
        """The options that a kernel depends on, as a hash."""
        return hashlib.sha256(str(sorted(self.__dict__.items())).encode()).hexdigest()


class CPUBackend(BaseBackend):
    """Kernels as modules of tileir."""

    binary_ext = "tir"

    @staticmethod
    def supports_target(target: Any) -> bool:
        """`GPUTarget("cpu", ...)`."""
        return target.backend == "cpu"

    def hash(self) -> str:
        """The version of tileir that the module of a kernel depends on, as a hash."""
        from tileir_triton.settings import cpu_mode
        from tileir_triton.version import key

        return f"tileir-cpu-{key()}-{cpu_mode() == 'interpreter'}"

    def parse_options(self, options: Any) -> CPUOptions:
        """The options that there are, at what is given or their default."""
        fields = CPUOptions.__dataclass_fields__
        return CPUOptions(**{k: v for k, v in options.items() if k in fields and v is not None})

    def pack_metadata(self, metadata: Any) -> Any:
        """All of it; the launcher has no use for it."""
        return metadata

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """No dot is too small, and there are no types but Triton's standard ones."""
        return {"min_dot_size": lambda lhs, rhs: (1, 1, 1), "convert_custom_types": None}

    def get_module_map(self) -> dict[str, Any]:
        """The library of functions: that of CUDA, whose functions tileir has formulas for."""
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """Triton's own are enough."""

    def add_stages(self, stages: Any, options: Any, language: Any = None) -> None:
        """`ttir`, as Triton's passes leave it, and `tir`."""
        stages["ttir"] = lambda src, metadata: _ttir(src)
        stages["tir"] = lambda src, metadata: _tir(src, metadata, options)


CPUBackend.__abstractmethods__ = frozenset()


def _ttir(module: Any) -> Any:
    """Run the TTIR passes of Triton's CUDA backend on `module`, as far as the release has them:
    inline calls, rewrite block pointers to pointers, and unroll loops by their attributes."""
    from triton._C.libtriton import ir, passes

    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    passes.common.add_inliner(manager)
    _add(manager, passes.ttir, "add_rewrite_tensor_pointer")
    passes.common.add_canonicalizer(manager)
    _add(manager, passes.ttir, "add_combine", "add_reorder_broadcast")
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    _add(manager, passes.ttir, "add_loop_unroll")
    try:
        manager.run(module, "make_ttir")
    except TypeError:  # 3.3 gives stages no name
        manager.run(module)
    return module


def _add(manager: Any, passes: Any, *names: str) -> None:
    """Add those of the passes that this release has."""
    for name in names:
        if hasattr(passes, name):
            getattr(passes, name)(manager)


def _tir(module: Any, metadata: Any, options: CPUOptions) -> bytes:
    from tileir.frontends.triton_backend.cpu.module import module_text

    return module_text(str(module), metadata, options.num_warps)
