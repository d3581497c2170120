"""LLVM IR text to code in this process, for the CPU it runs on, through llvmlite."""

from __future__ import annotations

import ctypes
from typing import Any

from tileir import records
from tileir.backend.cpu.masks import without_partial_masks
from tileir.backend.llvm.optimise import loaded
from tileir.errors import CompileError, Diagnostic

_RUN = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32,
    ctypes.c_int32, ctypes.c_int32,
)  # fmt: skip
_LIST_GLOBALS = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@records.frozen(eq=False)
class Code:
    """Machine code, loaded: `run` and `list_globals` of `tileir.backend.cpu.emit`, and the
    optimised LLVM IR it was made of."""

    run: Any
    list_globals: Any
    optimized: str
    engine: Any
    """What owns the memory of the code."""


def load(text: str, optimize: int = 3) -> Code:
    """Code of the module `text`. Raises `CompileError` (TIR0703) where LLVM refuses it, which is
    a defect of the lowering, and TIR0704 where this CPU lacks what the code needs."""
    binding = loaded()
    machine = _machine(binding, optimize)
    try:
        module = binding.parse_assembly(text)
        module.triple = binding.get_process_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        message = f"LLVM refuses the code made for this module: {error}"
        raise CompileError(Diagnostic("TIR0703", message)) from error
    tuning = binding.create_pipeline_tuning_options(speed_level=optimize)
    tuning.slp_vectorization = tuning.loop_vectorization = False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    optimized = without_partial_masks(made := str(module))
    if optimized != made:
        module = binding.parse_assembly(optimized)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    run = _RUN(engine.get_function_address("run"))
    list_globals = _LIST_GLOBALS(engine.get_function_address("list_globals"))
    return Code(run, list_globals, optimized, engine)


def _machine(binding: Any, optimize: int) -> Any:
    found = binding.Target.from_triple(binding.get_process_triple())
    features = binding.get_host_cpu_features()
    if "x86" in binding.get_process_triple() and not features.get("f16c"):
        message = "this CPU lacks F16C, which conversions of f16 are made of"
        raise CompileError(Diagnostic("TIR0704", message))
    return found.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=optimize, jit=True
    )
