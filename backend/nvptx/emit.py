"""A module of LLVM IR for one kernel and the scalar functions it calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from tileir import limits
from tileir.analysis.aliases import acquires_from_outside, unwritten
from tileir.analysis.argument_effects import effects
from tileir.analysis.clusters import ranks
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.codegen.rules import rules
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.legal import has_tiles, is_zero, within
from tileir.backend.nvptx.text import (
    LOOP_NODE,
    depth_first,
    global_name,
    kernel_name,
    literal,
    llvm_type,
    memory_type,
    symbol,
    unroll_hint,
)
from tileir.backend.nvptx.thread import LlvmThread
from tileir.backend.options import CodeVariant
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.target import LOCAL_BYTES, Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Global, InlineHint, Module, Parameter
from tileir.process import collector_paused
from tileir.types import I1, I8, Pointer, Scalar
from tileir.values import Constant

if TYPE_CHECKING:
    from tileir.backend.nvptx.debug_lines import LineTable

_ATTRIBUTES = """attributes #1 = { nounwind }
attributes #2 = { nounwind willreturn memory(none) }
attributes #3 = { nounwind alwaysinline }
attributes #4 = { convergent nounwind }
attributes #5 = { convergent nounwind memory(none) }
attributes #6 = { convergent nounwind noinline }"""
_LOOP = re.compile(r"!llvm\.loop !(\d+)")
ROLE = "gpu.role"
"""The op whose function is lowered in place instead of being called."""

_FIRST = 8
"""Number of the attributes of the first kernel; those of the others follow."""


@attrs.frozen(eq=False, repr=False)
class KernelUnit:
    """A kernel at the last stage before code generation, with the plan of its shared memory."""

    module: Module
    kernel: str
    memory: SharedMemoryPlan
    num_warps: int
    registers: int | None = None
    """The most that a thread may use; None where that is left to the assembler."""
    watched: bool = False
    """Whether a wait that takes longer than 1.5 seconds ends the kernel with an error."""
    line_info: bool = False
    """Whether instructions have locations."""
    variant: CodeVariant = CodeVariant.DEPTH_FIRST


def emit(unit: KernelUnit, target: Target) -> str:
    """The LLVM IR text of a kernel. Raises `CompileError` (TIR0706) at an op that has no
    lowering."""
    return join_kernels([emit_kernel(unit, target, 0)])


class KernelText(NamedTuple):
    """The text of one kernel: declarations that other kernels may share, and its own
    definitions."""

    declarations: tuple[str, ...]
    definitions: tuple[str, ...]
    table: LineTable | None = None
    reordered: bool = False
    """Whether its instructions are in another order than rules emit them in."""


@collector_paused()
def emit_kernel(unit: KernelUnit, target: Target, index: int) -> KernelText:
    """The text of kernel number `index` of a module. Its symbols are distinct from those of other
    numbers.

    Raises `CompileError` (TIR0706) at an op that has no lowering.
    """
    module, function = unit.module, unit.module.functions[unit.kernel]
    scope = f"k{index}$" if index else ""
    definitions = [
        *_shared_definition(unit.memory, scope),
        *(global_text(g, scope) for g in within(module, unit.kernel).globals.values()),
    ]
    declarations: dict[str, None] = {}
    table = _line_table(index) if unit.line_info else None
    threads, cluster = unit.num_warps * target.lanes, _cluster(module, function, target)
    functions = [function, *reachable_functions(module, function)]
    calls = expanded_size(functions) > limits.current().operations
    reordered = False
    for part in functions:
        thread = _thread(unit, part, threads, scope)
        thread.cluster = cluster
        thread.f8_conversion, thread.table = target.f8_conversion, table
        thread.bf16_atomics = target.bf16_atomics
        offsets = unit.memory.offsets if part is function else {}
        contiguity = AccessWidths(part)
        lowering = Lowering(
            module, part, target, thread, contiguity, offsets, rules(), unit.num_warps
        )
        inline = not (calls and part.inline is InlineHint.NEVER)
        head = _head(lowering, thread, _FIRST + index, inline)
        lines = "\n".join(x for x in thread.lines if x).split("\n")
        ordered = lines
        if unit.variant is not CodeVariant.PROGRAM_ORDER:
            alternating = unit.variant is CodeVariant.ALTERNATING
            ordered = depth_first(lines, thread.movable, alternating)
        reordered = reordered or ordered != lines
        entry = ["entry:", *thread.at_entry, "  br label %bb0"]
        definitions.append("\n".join((head, *entry, *ordered, "}")))
        declarations.update(thread.declarations)
    bounds = f'"nvvm.reqntid"="{threads}"'
    if unit.registers is not None:
        bounds += f' "nvvm.maxnreg"="{unit.registers}"'
    # The block is alone on its processor: ptxas then keeps values instead of recomputing them.
    if threads * target.max_registers > target.registers_per_processor and any(
        op.mnemonic == ROLE for op in function.ops
    ):
        bounds += ' "nvvm.minctasm"="1"'
    if cluster > 1:
        bounds += f' "nvvm.cluster_dim"="{cluster}"'
    definitions.append(f"attributes #{_FIRST + index} = {{ nounwind {bounds} }}")
    return KernelText(tuple(declarations), tuple(definitions), table, reordered)


def _line_table(index: int) -> LineTable:
    from tileir.backend.nvptx.debug_lines import LineTable  # for profilers and sanitizers

    return LineTable(index)


def _cluster(module: Module, function: Function, target: Target) -> int:
    """The number of blocks of a cluster. Raises CompileError (TIR0708) if it is not valid."""
    shape = ranks(module, function)
    if shape > 1 and not target.clusters:
        message = f"a cluster of {shape} blocks: {target.name} has none"
        raise CompileError(Diagnostic("TIR0708", message, function.location))
    return shape


def _thread(unit: KernelUnit, function: Function, threads: int, scope: str) -> LlvmThread:
    if any(op.mnemonic == ROLE for op in function.ops):
        from tileir.backend.nvptx.role_branches import KernelWithRoles  # few kernels have roles

        thread = KernelWithRoles(threads, unit.registers, scope)
    else:
        thread = (LlvmThread if unit.num_warps > 1 else _OneWarp)(scope=scope)
    thread.watched = unit.watched
    return thread


class _OneWarp(LlvmThread):
    """A thread of a block that consists of one warp."""

    def barrier(self) -> None:
        """Synchronize the warp, which is cheaper than a block barrier and orders memory as well
        (PTX ISA, bar.warp.sync)."""
        self.declare("declare void @llvm.nvvm.bar.warp.sync(i32)")
        self.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")


def join_kernels(parts: Sequence[KernelText]) -> str:
    """One module that contains all `parts`."""
    declarations = dict.fromkeys(d for part in parts for d in part.declarations)
    definitions = [d for part in parts for d in part.definitions]
    unrolled = sorted({int(node) - LOOP_NODE for d in definitions for node in _LOOP.findall(d)})
    hints = [hint for count in unrolled for hint in unroll_hint(count)]
    triple = 'target triple = "nvptx64-nvidia-cuda"'
    tables, places = [part.table for part in parts if part.table is not None], list[str]()
    if tables:
        from tileir.backend.nvptx.debug_lines import merge_line_tables

        places = merge_line_tables(tables)
    return "\n".join((triple, *declarations, *definitions, _ATTRIBUTES, *hints, *places, ""))


def expanded_size(functions: Sequence[Function]) -> int:
    """The number of operations of the first of `functions` after inlining. LLVM inlines all calls
    except those of functions marked `noinline`."""
    by_name = {function.name: function for function in functions}
    sizes: dict[str, int] = {}

    def size(function: Function) -> int:
        return sum(sizes.get(getattr(op, "callee", ""), 1) for op in function.ops)

    if len(functions) == 1:
        return size(functions[0])
    from tileir.passes.inline import callees_first  # few kernels call functions

    for name in callees_first(by_name):
        sizes[name] = size(by_name[name])
    return sizes[functions[0].name]


def _head(lowering: Lowering, thread: LlvmThread, attributes: int, inline: bool) -> str:
    """The first line of the function of `lowering`. `thread` writes its body."""
    function = lowering.function
    header = [_parameter(lowering, i, p) for i, p in enumerate(function.parameters)]
    header += _maps(function)
    scope = thread.table.enter(function.name, function.location) if thread.table else ""
    lowering.body()
    _check_private(thread.private_bytes, function)
    kinds = [llvm_type(t) for t in function.results]
    result = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
    names = ", ".join(header)
    if function.kernel:
        name = kernel_name(function.name)
        return f"define ptx_kernel void @{name}({names}) #{attributes}{scope} {{"
    name = symbol(f"{thread.scope}f.{function.name}")
    return f"define internal {result} {name}({names}) #{3 if inline else 6}{scope} {{"


def _check_private(size: int, function: Function) -> None:
    if size > LOCAL_BYTES:
        message = f"a thread has {LOCAL_BYTES} bytes of its own, and {size} are needed"
        raise CompileError(Diagnostic("TIR0708", f"{message}: use more warps", function.location))


def _maps(function: Function) -> list[str]:
    """The declarations of the parameters for the tensor maps of a kernel, in order."""
    count = sum(op.mnemonic == "gpu.tensor_map" for op in function.ops)
    kind = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
    return [f"{kind} %m{i}" for i in range(count)]


def _parameter(lowering: Lowering, index: int, parameter: Parameter) -> str:
    """The declaration of a parameter. Its value is recorded."""
    kind, name = parameter.type, f"%a{index}"
    if not isinstance(kind, (Scalar, Pointer)):
        message = f"parameter {parameter.name or index} has type {kind}: only scalars and pointers"
        raise CompileError(Diagnostic("TIR0706", message, parameter.location))
    if llvm_type(kind) == "i1":
        thread = lowering.thread
        lowering.values[parameter.value] = (
            [thread.once(name, lambda: thread.convert("trunc", I8, I1, name))]
            if lowering.function.kernel
            else [name]
        )
        return f"{'i8' if lowering.function.kernel else 'i1'} {name}"
    lowering.values[parameter.value] = [name]
    promises = parameter.attributes
    words = [llvm_type(kind)]
    if isinstance(kind, Pointer):
        words += ["noalias"] * _is_alone(lowering.function, parameter)
        words += ["readonly"] * (promises.readonly and not _is_atomic(lowering.function, parameter))
        words += ["writeonly"] * promises.writeonly
        if promises.aligned and promises.aligned & (promises.aligned - 1) == 0:
            words.append(f"align {min(promises.aligned, _FARTHEST)}")
    return " ".join((*words, name))


_FARTHEST = 4096
"""The largest alignment, in bytes, that LLVM makes use of."""


def _is_alone(function: Function, parameter: Parameter) -> bool:
    """Whether `parameter` may be `noalias` for LLVM, which analyses a single thread. It may not if
    this thread's stores may be read by other threads after a barrier, if other threads may write
    the memory by atomic accesses, or if the kernel acquires writes of other devices."""
    value = parameter.value
    if _is_atomic(function, parameter):
        return False
    if value in unwritten(function):
        return True
    access = effects(function).parameters.get(value)
    changes = access is not None and (access.written or access.escapes)
    return parameter.attributes.noalias and not changes and not acquires_from_outside(function)


def _is_atomic(function: Function, parameter: Parameter) -> bool:
    """Whether the memory of `parameter` is accessed atomically. If LLVM assumed that nothing else
    writes it, LLVM would replace the atomic accesses by plain loads."""
    access = effects(function).parameters.get(parameter.value)
    return access is not None and access.synchronises


def _shared_definition(memory: SharedMemoryPlan, scope: str) -> Iterator[str]:
    align = memory.alignment
    if memory.dynamic:
        yield f"@{scope}shared = external addrspace(3) global [0 x i8], align {align}"
    elif memory.size:
        kind = f"[{memory.size} x i8]"
        yield f"@{scope}shared = internal addrspace(3) global {kind} undef, align {align}"


def global_text(variable: Global, scope: str) -> str:
    """The definition of a global, or its declaration if another module defines it."""
    element = variable.element
    assert isinstance(element, (Scalar, Pointer))
    kind, space = memory_type(element), int(variable.space)
    name = f"@{scope}{global_name(variable.name)}"
    if variable.external:
        return f"{name} = external addrspace({space}) global [{variable.count} x {kind}]"
    word = "constant" if variable.constant else "global"
    word = word if variable.initial is not None else f"externally_initialized {word}"
    align = variable.alignment or element.bytes
    array = f"[{variable.count} x {kind}] {_initial(variable, kind)}, align {align}"
    return f"{name} = addrspace({space}) {word} {array}"


def _initial(variable: Global, kind: str) -> str:
    if variable.initial is None or is_zero(variable):
        return "zeroinitializer"
    values: list[Constant] = list(variable.initial)
    if len(values) == 1:
        values *= variable.count
    texts = (f"{kind} {_in_memory(kind, v)}" for v in values)
    return f"[{', '.join(texts)}]"


def _in_memory(kind: str, value: Constant) -> str:
    if kind == "i8":
        return str(value.bits)
    assert isinstance(value.type, (Scalar, Pointer))
    return literal(value.type, value.bits)


def reachable_functions(module: Module, kernel: Function) -> Iterator[Function]:
    """The scalar functions that `kernel` reaches by calls and combiners, each once."""
    seen, waiting = {kernel.name}, [kernel]
    while waiting:
        for op in waiting.pop().ops:
            if op.mnemonic == ROLE:
                waiting.append(module.functions[op.callee])  # type: ignore[attr-defined]
                continue
            for name in (getattr(op, "callee", None), getattr(op, "combiner", None)):
                callee = module.functions.get(name) if isinstance(name, str) else None
                if callee is None or callee.name in seen:
                    continue
                if callee.is_declaration or has_tiles(callee):
                    message = f"@{callee.name} cannot be compiled: it has no body, or has tiles"
                    raise CompileError(Diagnostic("TIR0706", message, op.location))
                seen.add(callee.name)
                waiting.append(callee)
                yield callee
