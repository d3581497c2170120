"""Annotations of a kernel's parameters: the type that an argument is passed as, whatever its value.

They are read as Triton reads them: types of the language (`tl.int64`,
`tl.pointer_type(tl.float16)`), their names (`"i64"`, `"*fp16"`, `"tl.uint32"`) and Python's `int`,
`float` and `bool`. Other annotations have no effect.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from tileir.frontends.triton.dtypes import SIGNATURE, DType, PointerType
from tileir.frontends.triton.errors import launch_error
from tileir.frontends.triton.language.control import constexpr
from tileir.frontends.triton.tensor import Kind

_WORDS: Mapping[str, str] = {
    "bool": "int1", "uint1": "int1", "half": "fp16", "float16": "fp16", "bfloat16": "bf16",
    "float": "fp32", "float32": "fp32", "double": "fp64", "float64": "fp64", "int": "int32",
    "float8e4nv": "fp8e4nv", "float8_e4m3fn": "fp8e4nv", "float8e5": "fp8e5",
    "float8_e5m2": "fp8e5",
}  # fmt: skip
"""Names of types that signatures have other words for."""


def is_constexpr(annotation: Any) -> bool:
    """Whether an annotation is `tl.constexpr`, as an object or as text."""
    if isinstance(annotation, str):
        return "constexpr" in annotation
    return annotation is constexpr or isinstance(annotation, constexpr)


def annotated_type(annotation: Any, function: Callable[..., Any]) -> Kind | None:
    """The type that a parameter of `function` has by its annotation; None where that names none."""
    if annotation is inspect.Parameter.empty or is_constexpr(annotation):
        return None
    if isinstance(annotation, (DType, PointerType)):
        return annotation
    if isinstance(annotation, str):
        return _parse_type(annotation) or _evaluate(annotation, function)
    return _parse_type(annotation.__name__) if annotation in (int, float, bool) else None


def _parse_type(text: str) -> Kind | None:
    """The type that a text names: `i64`, `tl.int64`, `*fp32`, `*kfp32`, `const *fp32`, `fp32*`."""
    word = text.strip().removeprefix("const ").strip()
    if word.startswith("*") or word.endswith("*"):
        pointee = _parse_type(word[1:].removeprefix("k") if word[0] == "*" else word[:-1])
        return PointerType(pointee) if isinstance(pointee, DType) else None
    word = word.removeprefix("tl.").removesuffix("_t")
    return SIGNATURE.get(_WORDS.get(word, word))


def _evaluate(text: str, function: Callable[..., Any]) -> Kind | None:
    """The object of an annotation that `from __future__ import annotations` made a text: a name, an
    attribute of a module, a text, or a pointer to a type. Nothing else is evaluated."""
    try:
        result = _look_up(ast.parse(text.strip(), mode="eval").body, function)
    except (SyntaxError, ValueError, LookupError, AttributeError, RecursionError, MemoryError):
        return None
    return _parse_type(result) if isinstance(result, str) else annotated_type(result, function)


def _look_up(node: ast.expr, function: Callable[..., Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return {"int": int, "float": float, "bool": bool, **function.__globals__}[node.id]
    if isinstance(node, ast.Attribute):
        module = _look_up(node.value, function)
        return vars(module)[node.attr] if isinstance(module, ModuleType) else None
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        pointee = annotated_type(_look_up(node.args[0], function), function)
        if _look_up(node.func, function) is PointerType and isinstance(pointee, DType):
            return PointerType(pointee)
    return None


def convert_number(name: str, value: Any, kind: DType) -> bool | int | float:
    """The number `value` as one of the annotated type. Raises LaunchError where it is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (bool, int, float)):
        raise launch_error(f"argument {name} is a {type(value).__name__}, and annotated {kind}")
    if kind.is_floating():
        return float(value)
    if isinstance(value, float):
        raise launch_error(f"argument {name} is {value}, and annotated {kind}")
    number = int(value)
    if kind.is_bool():
        return bool(number)
    low, high = kind.bounds
    if not low <= number <= high:
        raise launch_error(f"argument {name} is {number}, and annotated {kind}: {low} to {high}")
    return number
