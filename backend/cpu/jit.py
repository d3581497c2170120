"""LLVM IR text to machine code in this process, for its CPU, through llvmlite."""

from __future__ import annotations

import ctypes
import hashlib
from contextlib import suppress
from functools import cached_property
from typing import Any

import attrs

from tileir.backend import isolation
from tileir.backend.cpu.masks import without_partial_masks
from tileir.backend.isolation import Task
from tileir.backend.nvptx.llvm_codegen import (
    FORWARDED_LOADS,
    code_generator,
    llvm_binding,
    llvm_options,
)
from tileir.backend.options import CodeVariant
from tileir.backend.runtime.disk_store import DiskStore
from tileir.errors import CompileError, Diagnostic

_RUN = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32,
    ctypes.c_int32, ctypes.c_int32,
)  # fmt: skip
_LIST_GLOBALS = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_KEPT = 1 << 30
"""Bytes of machine code that a store keeps."""


@attrs.frozen(slots=False, eq=False)
class JitCode:
    """Machine code in memory: the functions `run` and `list_globals` of `tileir.backend.cpu.emit`,
    and the LLVM IR from which it was compiled."""

    run: Any
    list_globals: Any
    text: str
    opt_level: int
    engine: Any
    """The owner of the memory of the code."""

    @cached_property
    def optimized_llvm(self) -> str:
        """The optimized LLVM IR."""
        binding, level = llvm_binding(), self.opt_level
        return str(_optimize(binding, _machine(binding, level), self.text, level))


def load(
    text: str, opt_level: int = 3, store: DiskStore | None = None, task: Task | None = None
) -> JitCode:
    """Load the code of the module `text` from `store`, or generate it and store it there; `task`
    requests a separate process for that.

    Raises `CompileError`: TIR0703 if LLVM rejects the text, which is a defect of the lowering, and
    TIR0704 if this CPU lacks a required feature.
    """
    binding = llvm_binding()
    key = "" if store is None else _key(binding, text, opt_level)
    code = None if store is None else store.get(key)
    if code is None:
        if task is not None:
            code = isolation.run(task, generate, text, opt_level)
        else:
            code = generate(text, opt_level)
        if store is not None:
            with suppress(CompileError):  # the folder is not writable
                store.put(key, code)
                store.trim(_KEPT)
    empty = binding.parse_assembly("")
    empty.triple = binding.get_process_triple()
    engine = binding.create_mcjit_compiler(empty, _machine(binding, opt_level))
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()  # generates no code: the object file contains all of it
    run = _RUN(engine.get_function_address("run"))
    list_globals = _LIST_GLOBALS(engine.get_function_address("list_globals"))
    return JitCode(run, list_globals, text, opt_level, engine)


def generate(text: str, opt_level: int) -> bytes:
    """The object code of the module `text`. Raises `CompileError` as `load` does."""
    binding = llvm_binding()
    machine = _machine(binding, opt_level)
    module = _optimize(binding, machine, text, opt_level)
    with code_generator(binding, CodeVariant.SCHEDULED):
        return machine.emit_object(module)


def _key(binding: Any, text: str, opt_level: int) -> str:
    """The key of machine code in the store."""
    machine = binding.get_process_triple(), binding.get_host_cpu_name()
    features = binding.get_host_cpu_features().flatten()
    parts = ("cpu", *machine, features, *map(str, binding.llvm_version_info), str(opt_level), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _optimize(binding: Any, machine: Any, text: str, opt_level: int) -> Any:
    """LLVM's module of `text`, optimized."""
    try:
        module = binding.parse_assembly(text)
        module.triple = binding.get_process_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        message = f"LLVM rejects the code generated for this module: {error}"
        raise CompileError(Diagnostic("TIR0703", message)) from error
    tuning = binding.create_pipeline_tuning_options(speed_level=opt_level)
    tuning.slp_vectorization = tuning.loop_vectorization = False
    builder = binding.create_pass_builder(machine, tuning)
    with llvm_options(binding, {FORWARDED_LOADS: True}):
        builder.getModulePassManager().run(module, builder)
    optimized = without_partial_masks(generate := str(module))
    if optimized != generate:
        module = binding.parse_assembly(optimized)
    return module


def _machine(binding: Any, opt_level: int) -> Any:
    target = binding.Target.from_triple(binding.get_process_triple())
    features = binding.get_host_cpu_features()
    if "x86" in binding.get_process_triple() and not features.get("f16c"):
        message = "this CPU lacks F16C, which conversions of f16 need"
        raise CompileError(Diagnostic("TIR0704", message))
    return target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=opt_level, jit=True
    )
