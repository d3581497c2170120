"""Headers of functions and globals: names, promises, initial values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from numbers import Integral, Rational, Real
from typing import Any

from tileir.analysis.clusters import ATTRIBUTE, PERSISTENT, SIZES
from tileir.errors import Diagnostic, Location, is_text
from tileir.ir import (
    Function,
    Global,
    Linkage,
    Module,
    Parameter,
    ParameterAttributes,
    usual_space,
)
from tileir.types import VOID, AddressSpace, Descriptor, Pointer, Scalar, Tile, element_of


def check_names(module: Module) -> Iterator[Diagnostic]:
    """Check that the keys of symbols are their names, and that each name has one meaning."""
    for name, symbol in (*module.functions.items(), *module.globals.items()):
        if symbol.name != name:
            message = f"@{symbol.name} is filed under the name @{name}"
            yield Diagnostic("TIR0308", message, symbol.location)
        if name.startswith("std.") and not _is_of_library(symbol):
            message = f"@{name} is not of the standard library, whose names begin with std."
            yield Diagnostic("TIR0308", message, symbol.location)
        if not is_text(name):
            message = f"{name!r} has half of a surrogate pair, which no text can spell"
            yield Diagnostic("TIR0308", message, symbol.location)
    for name in module.functions.keys() & module.globals.keys():
        note = Diagnostic("TIR0308", "the global is here", module.globals[name].location)
        message = f"@{name} is both a function and a global"
        yield Diagnostic("TIR0308", message, module.functions[name].location, notes=(note,))


def _is_of_library(symbol: Function | Global) -> bool:
    """Whether `symbol` may be declared, or an instance, of a function of `tileir.std`."""
    if not isinstance(symbol, Function):
        return False
    return symbol.is_declaration or symbol.linkage is Linkage.LINKONCE


_WORD = r"[A-Za-z_][\w.$-]*"


def check_attributes(
    owner: str, attributes: Mapping[str, Any], where: Location | None
) -> Iterator[Diagnostic]:
    """Check that text can spell the names and values of the attributes of `owner`."""
    for name, value in attributes.items():
        if not re.fullmatch(_WORD, name):
            message = f"{owner} have an entry whose name is not a word: {name!r}"
            yield Diagnostic("TIR0310", message, where)
        if not _is_written(value):
            message = f"{owner} hold {name} = {value!r}, which no text can spell"
            yield Diagnostic("TIR0310", message, where)


def _is_written(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        if set(map(type, value)) == {int}:
            return -(10**40) < min(value) and max(value) < 10**40
        return all(map(is_text, value)) or all(map(_is_integer, value))
    return (
        isinstance(value, bool)
        or is_text(value)
        or (_is_integer(value) if isinstance(value, Rational) else isinstance(value, Real))
    )


def _is_integer(value: Any) -> bool:
    return _is_whole(value) and abs(int(value)) < 10**40


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_globals(module: Module) -> Iterator[Diagnostic]:
    """Check the elements and initial values of globals."""
    for symbol in module.globals.values():
        yield from _check_global(symbol)


def _check_global(symbol: Global) -> Iterator[Diagnostic]:
    where, name = symbol.location, f"@{symbol.name}"
    if not isinstance(symbol.element, (Scalar, Pointer)):
        message = f"{name} must hold scalars or pointers, not {symbol.element}"
        yield Diagnostic("TIR0307", message, where)
    if not _is_whole(symbol.count) or symbol.count < 1:
        message = f"{name} must hold a whole number of elements, at least 1, not {symbol.count!r}"
        yield Diagnostic("TIR0307", message, where)
    if _bad_alignment(symbol.alignment):
        message = f"alignment of {name} must be a power of two, not {symbol.alignment!r}"
        yield Diagnostic("TIR0221", message, where)
    if symbol.space not in (AddressSpace.GLOBAL, usual_space(symbol.constant)):
        kind = "a constant" if symbol.constant else "a global"
        message = f"{name}: {kind} cannot be in address space {int(symbol.space)}"
        yield Diagnostic("TIR0307", message, where)
    initial = symbol.initial
    if initial is None:
        return
    if len(initial) not in (1, symbol.count):
        message = f"{name} needs 1 or {symbol.count} initial values, not {len(initial)}"
        yield Diagnostic("TIR0307", message, where)
    wrong = next((c.type for c in initial if c.type is not symbol.element), None)
    if wrong is not None:
        message = f"initial values of {name} must be {symbol.element}, not {wrong}"
        yield Diagnostic("TIR0307", message, where)
    if symbol.external:
        message = f"{name} is declared external and cannot have initial values here"
        yield Diagnostic("TIR0307", message, where)


RESERVED = "host."
"""The prefix of metadata that the compiler writes to modules with a stage."""


def check_reserved(module: Module) -> Iterator[Diagnostic]:
    """Report metadata of a module without a stage whose names are reserved for the compiler."""
    for name in module.metadata if module.stage is None else ():
        if name.startswith(RESERVED):
            yield Diagnostic("TIR0339", reserved_name(name))


def reserved_name(name: str) -> str:
    """The message about metadata called `name`."""
    return f"metadata {name}: names that begin with {RESERVED} are the compiler's; give it another"


def check_function_header(function: Function) -> Iterator[Diagnostic]:
    """Results, parameters and settings of `function`."""
    if function.kernel and function.results:
        message = f"kernel @{function.name} must return void, not {function.results[0]}"
        yield Diagnostic("TIR0216", message, function.location)
    if VOID in function.results:
        message = f"void is not a value: @{function.name} has no results instead"
        yield Diagnostic("TIR0216", message, function.location)
    if _bad_alignment(function.alignment):
        message = (
            f"alignment of @{function.name} must be a power of two, not {function.alignment!r}"
        )
        yield Diagnostic("TIR0221", message, function.location)
    if function.attributes:
        owner = f"attributes of @{function.name}"
        yield from check_attributes(owner, function.attributes, function.location)
        yield from _check_settings(function)
    for parameter in function.parameters:
        if type(parameter.type) not in _ADDRESSES or parameter.attributes != _NO_PROMISE:
            yield from _check_parameter(function, parameter)


_ADDRESSES = (Scalar, Pointer)
"""Classes of types that every function may have as parameters."""

_NO_PROMISE = ParameterAttributes()


def _bad_alignment(alignment: Any) -> bool:
    is_integer = type(alignment) is int or _is_whole(alignment)
    return not is_integer or alignment < 0 or alignment & (alignment - 1) != 0


_POSITIVE = ("num_warps", "num_ctas", "num_stages", "max_registers", "split_k", "multicast")


_SWITCHES = ("warp_specialize", PERSISTENT, "pingpong")


def _check_settings(function: Function) -> Iterator[Diagnostic]:
    for name in _POSITIVE:
        value = function.attributes.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            message = f"{name} of @{function.name} must be a positive integer, not {value!r}"
            yield Diagnostic("TIR0222", message, function.location)
    for name in _SWITCHES:
        value = function.attributes.get(name, False)
        counted = name == PERSISTENT and isinstance(value, int) and value > 0
        if not isinstance(value, bool) and not counted:
            message = f"{name} of @{function.name} must be true or false, not {value!r}"
            yield Diagnostic("TIR0222", message, function.location)
    blocks = function.attributes.get(ATTRIBUTE, 1)
    if not _is_whole(blocks) or blocks not in SIZES:
        message = f"{ATTRIBUTE} of @{function.name} must be one of {SIZES}, not {blocks!r}"
        yield Diagnostic("TIR0222", message, function.location)


def _check_parameter(function: Function, parameter: Parameter) -> Iterator[Diagnostic]:
    where = parameter.location or function.location
    for code, message in _parameter_faults(function, parameter):
        yield Diagnostic(code, f"parameter %{parameter.name or '?'} {message}", where)


def _parameter_faults(function: Function, parameter: Parameter) -> Iterator[tuple[str, str]]:
    type_, promise = parameter.type, parameter.attributes
    element = element_of(type_)
    is_pointer = isinstance(element, Pointer)
    if type_ is VOID:
        yield "TIR0217", "cannot be void"
    elif function.kernel and not isinstance(type_, (Scalar, Pointer, Descriptor)):
        yield "TIR0217", f"of a kernel must be a scalar, pointer or descriptor, not {type_}"
    if promise.aligned and not is_pointer:
        yield "TIR0220", f"is aligned, so it must be a pointer, not {type_}"
    if _bad_alignment(promise.aligned):
        yield "TIR0220", f"must be aligned to a power of two, not {promise.aligned!r}"
    if promise.multiple_of and not (isinstance(element, Scalar) and element.is_integer):
        yield "TIR0220", f"has multiple_of, so it must be an integer, not {type_}"
    if not _is_whole(promise.multiple_of) or promise.multiple_of < 0:
        yield "TIR0220", f"must be a multiple of a positive number, not {promise.multiple_of!r}"
    if (promise.readonly or promise.writeonly or promise.noalias) and not _reaches_memory(
        parameter
    ):
        yield "TIR0220", f"has a promise about memory, so it must be a pointer, not {type_}"
    if promise.readonly and promise.writeonly:
        yield "TIR0220", "cannot be readonly and writeonly"


def _reaches_memory(parameter: Parameter) -> bool:
    type_ = parameter.type
    element = type_.element if isinstance(type_, Tile) else type_
    return isinstance(element, (Pointer, Descriptor))
