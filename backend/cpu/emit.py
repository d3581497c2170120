"""A module of LLVM IR for one kernel on a CPU, and the functions it calls.

`run(launch, arguments, first, last, gx, gy, gz)` runs program instances `first` to `last` of the
grid, x the fastest. Each argument occupies 8 bytes; the address of the private memory of lanes
(`Written.private`) follows the last one. `launch` is the address of the words of `launch.py`.
`list_globals(found)` writes the addresses of globals, in order.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import attrs

from tileir import limits
from tileir.backend.codegen.lowering import Rule
from tileir.backend.codegen.rules import rules
from tileir.backend.cpu.checks import FUNCTIONS as CHECKS
from tileir.backend.cpu.dots import RULES as OWN
from tileir.backend.cpu.globals import globals_of, used_globals
from tileir.backend.cpu.host_callbacks import CallbackSite
from tileir.backend.cpu.lane_values import scalar_type
from tileir.backend.cpu.launch import HELPERS
from tileir.backend.cpu.lowering import (
    PLACES,
    CpuLowering,
    caller,
    own_symbol,
    parameters_of,
)
from tileir.backend.cpu.thread import CpuThread
from tileir.backend.nvptx.emit import expanded_size, global_text, reachable_functions
from tileir.backend.nvptx.text import global_name
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Global, Module
from tileir.ops.symbols import GlobalAddress
from tileir.types import Pointer, Scalar


@attrs.frozen
class Written:
    """A module of LLVM IR, its calls of Python, and the size in bytes of the private memory of the
    lanes of an instance."""

    text: str
    sites: tuple[CallbackSite, ...]
    private: int


_WIDE = '"prefer-vector-width"="512" "min-legal-vector-width"="512"'
_ATTRIBUTES = (
    f"attributes #0 = {{ nounwind {_WIDE} }}\n"
    f"attributes #1 = {{ nounwind noinline {_WIDE} }}\n"
    f"attributes #2 = {{ nounwind alwaysinline {_WIDE} }}"
)
"""Attributes of kernels and their callees; #1: of functions that are not inlined; #2: of those that
are."""


def emit(
    module: Module, kernel: str, plan: SharedMemoryPlan, target: Target, checked: bool = True
) -> Written:
    """The LLVM IR of the kernel. With `checked`, accesses are checked before they are made. Raises
    `CompileError` (TIR0706; TIR0708 for globals of more than `GLOBAL_BYTES`)."""
    function, table = module.functions[kernel], ChainMap(dict(OWN), cast(Any, rules()))
    sites: list[CallbackSite] = []
    declarations: dict[str, None] = {}
    _check_globals(module)
    variables = globals_of(module, kernel)
    definitions = [global_text(g, "") for g in used_globals(module, kernel)]
    private = 0
    functions = [function, *reachable_functions(module, function)]
    calls = expanded_size(functions) > limits.current().operations
    for part in functions:
        thread = CpuThread()
        thread.calls = calls
        thread.sites = sites
        definitions.append(_function(module, part, plan, target, thread, table, kernel, checked))
        declarations.update(thread.declarations)
        private += thread.private_bytes
    parts = (
        *declarations,
        *definitions,
        HELPERS,
        *[CHECKS] * checked,
        _run(function),
        _list_globals(variables),
        _ATTRIBUTES,
        "",
    )
    return Written("\n".join(parts), tuple(sites), private)


GLOBAL_BYTES = 1 << 28
"""Bytes that the globals of a module may have together: code reaches them by offsets of 32 bits."""


def _check_globals(module: Module) -> None:
    total = 0
    for variable in module.globals.values():
        total += global_bytes(variable)
        if total > GLOBAL_BYTES or variable.alignment > GLOBAL_BYTES:
            message = (
                f"@{variable.name} brings the globals of the module to {total} bytes; on a CPU "
                f"they have at most {GLOBAL_BYTES}: pass an array as an argument instead"
            )
            raise CompileError(Diagnostic("TIR0708", message, variable.location))


def global_bytes(variable: Global) -> int:
    """The size of a global in bytes."""
    element: Any = variable.element
    return variable.count * element.bytes


def _list_globals(variables: Sequence[Global]) -> str:
    lines: list[str] = []
    for i, variable in enumerate(variables):
        space = int(variable.space)
        kind = f"ptr addrspace({space})" if space else "ptr"
        lines.append(f"  %at{i} = getelementptr i64, ptr %found, i64 {i}")
        name = f"@{global_name(variable.name)}"
        lines.append(f"  store i64 ptrtoint ({kind} {name} to i64), ptr %at{i}")
    body = "\n".join((*lines, "  ret void"))
    return f"define void @list_globals(ptr %found) #0 {{\n{body}\n}}"


def _function(
    module: Module, function: Function, plan: SharedMemoryPlan, target: Target, thread: CpuThread,
    table: Mapping[str, Rule], kernel: str, checked: bool,
) -> str:  # fmt: skip
    offsets = plan.offsets if function.kernel else {}
    lowering = CpuLowering(
        module, function, target, thread, offsets, table, kernel=kernel, checked=checked
    )
    thread.inline = caller(lowering)
    _check(module, function)
    for parameter, name in zip(function.parameters, parameters_of(function), strict=True):
        lowering.values[parameter.value] = [name]
    kinds = [scalar_type(t) for t in function.results]
    result = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
    thread.leave = "ret void" if result == "void" else f"ret {result} zeroinitializer"
    lowering.body()
    names = ", ".join(_parameters(function))
    entry = list(thread.at_entry)
    if plan.size and function.kernel:
        entry.insert(0, f"  %shared = alloca [{plan.size} x i8], align 64")
    head = f"define internal {result} {own_symbol(function)}({names}) #0 {{"
    lines = (head, "entry:", *entry, "  br label %bb0", *(x for x in thread.lines if x), "}")
    return "\n".join(lines)


def _check(module: Module, function: Function) -> None:
    for i, parameter in enumerate(function.parameters):
        if not isinstance(parameter.type, (Scalar, Pointer)):
            message = f"parameter {parameter.name or i} has type {parameter.type}: only scalars and pointers"  # noqa: E501
            raise CompileError(Diagnostic("TIR0706", message, parameter.location))
    for op in function.ops:
        if isinstance(op, GlobalAddress) and module.globals[op.name].external:
            message = f"@{op.name} is declared here, and nothing on a CPU defines it"
            raise CompileError(Diagnostic("TIR0706", message, op.location))


def _parameters(function: Function) -> list[str]:
    """The parameter declarations of a function."""
    private = ["ptr %private"] if function.kernel else []
    return [*(f"{k} {n}" for n, k in parameters_of(function).items()), *private, *PLACES]


def _run(kernel: Function) -> str:
    """The function that loops over program instances."""
    loaded = "\n".join(_arguments(kernel))
    parameters = ", ".join(_parameters(kernel))
    counts = "i32 %gx, i32 %gy, i32 %gz"
    return f"""define void @run(ptr %launch, ptr %arguments, i64 %first, i64 %last, {counts}) #0 {{
entry:
{loaded}
  %nx = zext i32 %gx to i64
  %ny = zext i32 %gy to i64
  br label %loop
loop:
  %index = phi i64 [ %first, %entry ], [ %next, %on ], [ %next, %look ]
  %x = urem i64 %index, %nx
  %row = udiv i64 %index, %nx
  %y = urem i64 %row, %ny
  %z = udiv i64 %row, %ny
  %px = trunc i64 %x to i32
  %py = trunc i64 %y to i32
  %pz = trunc i64 %z to i32
  call void {own_symbol(kernel)}({parameters})
  %next = add i64 %index, 1
  %again = icmp ult i64 %next, %last
  br i1 %again, label %on, label %done
on:
  %word = load volatile i64, ptr %launch
  %due = icmp sle i64 %word, %next
  br i1 %due, label %look, label %loop
look:
  %leaves = call i1 @attend(ptr %launch, i64 %next)
  br i1 %leaves, label %done, label %loop
done:
  ret void
}}"""


def _arguments(kernel: Function) -> Iterator[str]:
    for i, (name, kind) in enumerate(parameters_of(kernel).items()):
        yield f"  %s{i} = getelementptr i64, ptr %arguments, i64 {i}"
        if kind == "i1":
            yield f"  %b{i} = load i8, ptr %s{i}"
            yield f"  {name} = trunc i8 %b{i} to i1"
        else:
            yield f"  {name} = load {kind}, ptr %s{i}"
    last = len(kernel.parameters)
    yield f"  %s{last} = getelementptr i64, ptr %arguments, i64 {last}"
    yield f"  %private = load ptr, ptr %s{last}"
