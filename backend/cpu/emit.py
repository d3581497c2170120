"""A module of LLVM IR for one kernel on a CPU, and the functions it calls.

`run(arguments, first, last, gx, gy, gz)` runs program instances `first` to `last` of the grid, x
the fastest; each argument lies in 8 bytes of its own, behind them the address of memory for what
lanes keep (`Written.private`).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tileir import limits, records
from tileir.backend.cpu.bounds import FUNCTIONS as BEYOND
from tileir.backend.cpu.dots import RULES as OWN
from tileir.backend.cpu.host import Site
from tileir.backend.cpu.lanes import scalar_type
from tileir.backend.cpu.lowering import (
    PLACES,
    CpuLowering,
    caller,
    ends_of,
    own_symbol,
    parameters_of,
)
from tileir.backend.cpu.thread import CpuThread
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.legal import within
from tileir.backend.llvm.emit import expanded_size, global_text, reached
from tileir.backend.lower.lowering import Rule
from tileir.backend.memory.scratch import Plan
from tileir.backend.rules import rules
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.ops.memory import GlobalAddress
from tileir.types import Pointer, Scalar


@records.frozen
class Written:
    """A module of LLVM IR, the places where it asks Python, and how many bytes of memory of their
    own the lanes of an instance need."""

    text: str
    sites: tuple[Site, ...]
    private: int


_WIDE = '"prefer-vector-width"="512" "min-legal-vector-width"="512"'
_ATTRIBUTES = (
    f"attributes #0 = {{ nounwind {_WIDE} }}\n"
    f"attributes #1 = {{ nounwind noinline {_WIDE} }}\n"
    f"attributes #2 = {{ nounwind alwaysinline {_WIDE} }}"
)
"""Of kernels and what they call; #1: of what stays a function; #2: of what does not."""


def emit(module: Module, kernel: str, plan: Plan, target: Target, checked: bool = False) -> Written:
    """The kernel as text; `checked`: accesses are looked at first, given the ends of the arrays
    behind the arguments. Raises `CompileError` (TIR0706)."""
    function, table = module.functions[kernel], ChainMap(OWN, cast(Any, rules()))
    sites: list[Site] = []
    declarations: dict[str, None] = {}
    definitions = [*(global_text(g, "") for g in within(module, kernel).globals.values())]
    private = 0
    whole = [function, *reached(module, function)]
    calls = expanded_size(whole) > limits.current().operations
    for found in whole:
        thread = CpuThread()
        thread.calls = calls
        thread.sites = sites
        guarded = checked and found is function
        definitions.append(_function(module, found, plan, target, thread, table, guarded))
        declarations.update(thread.declarations)
        private += thread.private_bytes
    host, run = "@host = internal global ptr null", _run(function, checked)
    parts = (
        host,
        *declarations,
        *definitions,
        *[BEYOND] * checked,
        run,
        _SET_HOST,
        _ATTRIBUTES,
        "",
    )
    return Written("\n".join(parts), tuple(sites), private)


_SET_HOST = """define void @set_host(ptr %function) #0 {
  store ptr %function, ptr @host
  ret void
}"""


def _function(
    module: Module, function: Function, plan: Plan, target: Target, thread: CpuThread,
    table: Mapping[str, Rule], checked: bool,
) -> str:  # fmt: skip
    machine: Any = thread
    offsets = plan.offsets if function.kernel else {}
    contiguity = Contiguity(function)
    lowering = CpuLowering(
        module, function, target, machine, contiguity, offsets, table, checked=checked
    )
    thread.inline = caller(lowering)
    _check(module, function)
    for parameter, name in zip(function.parameters, parameters_of(function), strict=True):
        lowering.values[parameter.value] = [name]
    kinds = [scalar_type(t) for t in function.results]
    result = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
    thread.leave = "ret void" if result == "void" else f"ret {result} zeroinitializer"
    lowering.body()
    names = ", ".join(_given(function, checked))
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


def _given(function: Function, checked: bool) -> list[str]:
    """What a function is called with."""
    ends = _ends(function) if checked else []
    private = ["ptr %private"] if function.kernel else []
    return [*(f"{k} {n}" for n, k in parameters_of(function).items()),
            *(f"i64 {n}" for n in ends), *private, *PLACES]  # fmt: skip


def _ends(function: Function) -> list[str]:
    return [n for i in range(len(function.parameters)) for n in ends_of(i)]


def _run(kernel: Function, checked: bool) -> str:
    """The loop over program instances."""
    loaded = "\n".join(_arguments(kernel, checked))
    given = ", ".join(_given(kernel, checked))
    counts = "i32 %gx, i32 %gy, i32 %gz"
    return f"""define void @run(ptr %arguments, i64 %first, i64 %last, {counts}) #0 {{
entry:
{loaded}
  %nx = zext i32 %gx to i64
  %ny = zext i32 %gy to i64
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %next, %loop ]
  %x = urem i64 %i, %nx
  %row = udiv i64 %i, %nx
  %y = urem i64 %row, %ny
  %z = udiv i64 %row, %ny
  %px = trunc i64 %x to i32
  %py = trunc i64 %y to i32
  %pz = trunc i64 %z to i32
  call void {own_symbol(kernel)}({given})
  %next = add i64 %i, 1
  %again = icmp ult i64 %next, %last
  br i1 %again, label %loop, label %done
done:
  ret void
}}"""


def _arguments(kernel: Function, checked: bool) -> Iterator[str]:
    for i, (name, kind) in enumerate(parameters_of(kernel).items()):
        yield f"  %s{i} = getelementptr i64, ptr %arguments, i64 {i}"
        if kind == "i1":
            yield f"  %b{i} = load i8, ptr %s{i}"
            yield f"  {name} = trunc i8 %b{i} to i1"
        else:
            yield f"  {name} = load {kind}, ptr %s{i}"
    for i, name in enumerate(_ends(kernel) if checked else (), len(kernel.parameters)):
        yield f"  %s{i} = getelementptr i64, ptr %arguments, i64 {i}"
        yield f"  {name} = load i64, ptr %s{i}"
    last = len(kernel.parameters) + (len(_ends(kernel)) if checked else 0)
    yield f"  %s{last} = getelementptr i64, ptr %arguments, i64 {last}"
    yield f"  %private = load ptr, ptr %s{last}"
