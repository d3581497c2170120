"""Calls of functions of the language, of the user, and of Python on compile-time values."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

from tileir.errors import from_signal_handler
from tileir.frontends.triton import dtypes, language, semantic
from tileir.frontends.triton.dtypes import DType
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.expressions import BoundMethod, is_static
from tileir.frontends.triton.frame import Frame
from tileir.frontends.triton.language import control, debugging
from tileir.frontends.triton.language.builtin import Builtin
from tileir.frontends.triton.python_functions import check_call, check_size, constexpr_function
from tileir.frontends.triton.source import FunctionSource
from tileir.frontends.triton.statements import run
from tileir.frontends.triton.tensor import describe, is_number, of

_CONVERSIONS = {float: dtypes.float32, int: dtypes.int32, bool: dtypes.int1}
"""Python's types called on tensors."""

_DEEPEST = 40
"""Calls within calls that are inlined."""

_OF_PYTHON: dict[Any, Builtin] = {
    builtins.min: language.minimum,
    builtins.max: language.maximum,
    builtins.abs: language.abs,
    builtins.print: debugging.print_,
}
"""Python's functions as those of the language."""


def _returning_tuple(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Convert a function that returns an iterator to one that returns a tuple."""

    @wraps(function, assigned=("__name__",), updated=())
    def apply(*arguments: Any, **keywords: Any) -> tuple[Any, ...]:
        return tuple(function(*arguments, **keywords))

    return apply


_STEERING: dict[Any, Callable[..., Any]] = {
    control.constexpr: control.constexpr,
    control.range: control.range,
    control.static_range: control.static_range,
    builtins.range: control.range,
    **{f: constexpr_function(_returning_tuple(f)) for f in (tuple, list, zip, enumerate, reversed)},
}
"""Functions that control the compiler or make tuples; they are evaluated at compile time, for
tensors too."""


def call(frame: Frame, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """The result of a call. Raises KernelError and CompilationError."""
    if isinstance(function, BoundMethod):
        return _language(frame, function.function, [function.value, *arguments], keywords)
    if isinstance(function, Builtin):
        return _language(frame, function, arguments, keywords)
    source = getattr(function, "source", None)
    if isinstance(source, FunctionSource):
        return inline(frame, source, arguments, keywords)
    if isinstance(function, DType) and len(arguments) == 1:
        return semantic.cast(of(frame.b, arguments[0]), function)
    if function is builtins.print:
        return _language(frame, debugging.print_, arguments, keywords)
    if not callable(function):
        raise KernelError(f"{describe(function)} is not a function", "TIR1003")
    if function in _STEERING:
        return _python(_STEERING[function], arguments, keywords)
    if _is_named_tuple(function):
        return _python(function, arguments, keywords)
    if not (is_static(arguments) and is_static(tuple(keywords.values()))):
        return _on_tensors(frame, function, arguments, keywords)
    return _python(function, arguments, keywords)


def _language(
    frame: Frame, function: Builtin, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    public = {k: v for k, v in keywords.items() if not k.startswith("_")}
    try:
        return function.apply(frame, *arguments, **public)
    except TypeError as error:
        text = str(error)
        if "argument" not in text:
            raise _argument_error(function, arguments) from error
        raise KernelError(f"tl.{function.name}: {text.split('() ')[-1]}", "TIR1003") from error
    except (AttributeError, LookupError, OverflowError, ValueError) as error:
        raise _argument_error(function, arguments) from error


def _argument_error(function: Builtin, arguments: list[Any]) -> KernelError:
    shown = ", ".join(map(describe, arguments))
    return KernelError(f"tl.{function.name} does not take ({shown})", "TIR1003")


def _on_tensors(frame: Frame, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if function in _OF_PYTHON:
        return _fold_pairwise(frame, function, arguments, keywords)
    if function in _CONVERSIONS and len(arguments) == 1:
        return semantic.cast(of(frame.b, arguments[0]), _CONVERSIONS[function])
    if function in (isinstance, len, getattr, hasattr, type):
        return _python(function, arguments, keywords)
    name = getattr(function, "__name__", repr(function))
    message = f"{name} is a function of Python and cannot take tensors; decorate it with @jit"
    raise KernelError(message, "TIR1003")


def _is_named_tuple(function: Any) -> bool:
    return isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_make")


def _fold_pairwise(
    frame: Frame, function: Any, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    """`min`, `max` of several, two at a time."""
    target = _OF_PYTHON[function]
    if target not in (language.minimum, language.maximum):
        return _language(frame, target, arguments, keywords)
    several = arguments[0] if len(arguments) == 1 else arguments
    if not isinstance(several, (tuple, list)):
        name = function.__name__
        raise KernelError(f"{name} combines several values; tl.{name} reduces one", "TIR1003")
    return reduce(lambda x, y: _language(frame, target, [x, y], keywords), several)


def _python(function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Call a function of Python on compile-time values."""
    try:
        check_call(function, arguments, keywords)
        result = function(*arguments, **keywords)
        check_size(result)
        return result
    except KernelError:
        raise
    except Exception as error:
        if from_signal_handler(error):
            raise
        name = getattr(function, "__name__", repr(function))
        raise KernelError(f"{name}: {error}", "TIR1003") from error


def inline(
    frame: Frame, source: FunctionSource, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    """Inline a function of the user at its call."""
    if frame.depth >= _DEEPEST:
        raise KernelError(f"calls of {source.tree.name} are more than {_DEEPEST} deep", "TIR1001")
    try:
        bound = source.signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise KernelError(f"{source.tree.name}: {error}", "TIR1003") from None
    bound.apply_defaults()
    inner = Frame(frame.b, source, is_kernel=False, caller=frame.caller)
    inner.depth = frame.depth + 1
    for name, value in bound.arguments.items():
        if name in source.constant_parameters and is_number(value):
            value = value.number
        inner.names.set(name, value if not isinstance(value, list) else tuple(value))
    return inner.finish(run(inner, source.tree.body))
