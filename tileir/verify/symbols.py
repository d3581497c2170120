"""Symbols: calls, combiners, addresses of globals; no recursion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, cast

from tileir.errors import Diagnostic
from tileir.ir import Function, Global, Module
from tileir.op import FieldKind, Op
from tileir.types import Pointer, Scalar, Type, element_of

if TYPE_CHECKING:
    from tileir.ops.symbols import Call


_MOST_RECURSIVE = 16
"""Functions that are named as recursive."""

CALLING = ("call", "gpu.role")
"""Ops that run the function that their symbol names."""


def check_symbols(module: Module, ops: Iterable[Op]) -> Iterator[Diagnostic]:
    """Check the symbols that `ops` name."""
    for op in ops:
        if op.mnemonic in CALLING:
            yield from _check_call(module, cast("Call", op))
            continue
        for name in _symbol_fields(op):
            yield from _check_address(module, op, name)
        for name in called_functions(op):
            yield from _check_combiner(module, op, name)


def called_functions(op: Op) -> Iterator[str]:
    """Names of the functions that executing `op` calls."""
    if op.mnemonic in CALLING:
        yield cast("Call", op).callee
    for name in _function_attributes(type(op)):
        value = getattr(op, name)
        if type(value) is str:
            yield value


@cache
def _function_attributes(cls: type[Op]) -> tuple[str, ...]:
    """The attributes of `cls` that may name a function."""
    forms = {f.name: f.attribute.form for f in cls.fields(FieldKind.ATTRIBUTE) if f.attribute}
    return tuple(name for name, form in forms.items() if form in ("combiner", "symbol"))


def _symbol_fields(op: Op) -> Iterator[str]:
    for field in op.fields(FieldKind.SYMBOL):
        yield getattr(op, field.name)


def _find_function(module: Module, op: Op, name: str) -> Function | Diagnostic:
    function = module.functions.get(name)
    if function is None:
        reason = "is a global, not a function" if name in module.globals else "is not declared"
        code = "TIR0302" if name in module.globals else "TIR0301"
        return Diagnostic(code, f"@{name} {reason}", op.location, operand="callee")
    if function.kernel:
        note = Diagnostic("TIR0309", f"@{name} is here", function.location)
        message = f"@{name} is a kernel; only the host starts kernels"
        return Diagnostic("TIR0309", message, op.location, notes=(note,), operand="callee")
    return function


def _check_call(module: Module, op: Call) -> Iterator[Diagnostic]:
    callee = _find_function(module, op, op.callee)
    if isinstance(callee, Diagnostic):
        yield callee
        return
    arguments, parameters = op.arguments, callee.parameters
    if len(arguments) != len(parameters):
        message = f"@{callee.name} takes {len(parameters)} arguments, not {len(arguments)}"
        yield Diagnostic("TIR0303", message, op.location, notes=_here(callee))
    for index, (argument, parameter) in enumerate(zip(arguments, parameters, strict=False)):
        have, want = argument.type, parameter.value.type
        if have is not want:
            message = f"argument {index} of @{callee.name} must be {want}, not {have}"
            yield Diagnostic("TIR0304", message, op.location, notes=_here(callee), operand=index)
    if op.types != callee.results:
        message = f"@{callee.name} returns {_list(callee.results)}, not {_list(op.types)}"
        notes = _here(callee)
        yield Diagnostic("TIR0304", message, op.location, notes=notes, operand="results")


def _here(callee: Function) -> tuple[Diagnostic, ...]:
    return (Diagnostic("TIR0303", f"@{callee.name} is here", callee.location),)


def _check_combiner(module: Module, op: Op, name: str) -> Iterator[Diagnostic]:
    callee = _find_function(module, op, name)
    if isinstance(callee, Diagnostic):
        yield callee
        return
    elements = tuple(element_of(v.type) for v in op.results)
    if tuple(p.type for p in callee.parameters) == elements * 2 and callee.results == elements:
        return
    have = f"({_list([p.type for p in callee.parameters])}) -> {_list(callee.results)}"
    message = (
        f"combiner @{name} of {op.mnemonic} must be ({_list(elements * 2)}) -> {_list(elements)}, "
        f"not {have}"
    )
    note = Diagnostic("TIR0305", f"@{name} is here", callee.location)
    yield Diagnostic("TIR0305", message, op.location, notes=(note,), operand="combiner")


def _check_address(module: Module, op: Op, name: str) -> Iterator[Diagnostic]:
    result = module.globals.get(name)
    if result is None:
        code = "TIR0302" if name in module.functions else "TIR0301"
        reason = "is a function, not a global" if name in module.functions else "is not declared"
        yield Diagnostic(code, f"@{name} {reason}", op.location)
        return
    for value in op.results:
        yield from _check_address_type(op, result, value.type)


def _check_address_type(op: Op, symbol: Global, type_: Type) -> Iterator[Diagnostic]:
    element = symbol.element
    address = Pointer(element, symbol.space) if isinstance(element, (Scalar, Pointer)) else None
    if type_ is address:
        return
    message = f"the address of @{symbol.name} is {address}, not {type_}"
    note = Diagnostic("TIR0304", f"@{symbol.name} is here", symbol.location)
    yield Diagnostic("TIR0304", message, op.location, notes=(note,), operand="results")


def check_recursion(naming: Mapping[str, Sequence[Op]]) -> Iterator[Diagnostic]:
    """A finding for each of the first functions that can call themselves, given the ops of each
    that name symbols."""
    calls = {name: _calls(ops) for name, ops in naming.items()}
    if not any(calls.values()):
        return
    from tileir.analysis.components import strong_components  # few modules call functions

    ring = strong_components(calls)
    alone = (name for name in calls if any(ring.get(t) == ring[name] for t in calls[name]))
    for name in islice(alone, _MOST_RECURSIVE):
        target, op = next((t, o) for t, o in calls[name].items() if ring.get(t) == ring[name])
        via = "itself" if target == name else f"itself through @{target}"
        message = f"@{name} calls {via}; device functions are inlined and cannot recurse"
        yield Diagnostic("TIR0306", message, op.location)


def _calls(ops: Iterable[Op]) -> dict[str, Op]:
    """The functions that `ops` call, with the first call of each."""
    calls: dict[str, Op] = {}
    for op in ops:
        for name in called_functions(op):
            calls.setdefault(name, op)
    return calls


def _list(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types)) or "void"
