"""Libraries of functions that kernels call, as LLVM IR. They are linked before optimization, so
that their functions are inlined."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tileir.backend.nvptx.llvm_codegen import llvm_binding
from tileir.errors import CompileError, Diagnostic

_TRIPLE = "nvptx64-nvidia-cuda"


def functions_of(bitcode: bytes, symbols: Collection[str]) -> tuple[str, set[str]]:
    """Extract functions of a library of LLVM bitcode for NVPTX. The result is the LLVM IR text of
    those of `symbols` that the library defines, with everything that they call, and the set of
    these symbols. The text is '' if the library defines none.

    Raises `CompileError` (TIR0719) for bitcode that this version of LLVM cannot read.
    """
    llvm = llvm_binding()
    try:
        library = llvm.parse_bitcode(bitcode)
    except RuntimeError as error:
        message = f"LLVM cannot read a library: {error}"
        raise CompileError(Diagnostic("TIR0719", message)) from error
    defined = {f.name for f in library.functions if not f.is_declaration} & set(symbols)
    if not defined:
        return "", defined
    _keep_only(library, defined)
    machine = llvm.Target.from_triple(_TRIPLE).create_target_machine()
    library.triple, library.data_layout = _TRIPLE, str(machine.target_data)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(library, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(0)))
    return str(library), defined


def link_libraries(llvm: Any, module: Any, libraries: Sequence[str]) -> None:
    """Link texts of LLVM IR into `module`. Their functions become internal to it.

    Raises `CompileError` (TIR0719) for a text that LLVM rejects.
    """
    own = {f.name for f in module.functions if not f.is_declaration}
    own |= {v.name for v in module.global_variables}
    for text in libraries:
        try:
            library = llvm.parse_assembly(text)
            library.triple, library.data_layout = module.triple, module.data_layout
            module.link_in(library)
        except RuntimeError as error:
            message = f"LLVM refuses a library: {error}"
            raise CompileError(Diagnostic("TIR0719", message)) from error
    _keep_only(module, own)


def _keep_only(module: Any, names: Collection[str]) -> None:
    """Make all symbols of `module` internal except `names`, so that unused ones are removed."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in names:
            value.linkage = "internal"
