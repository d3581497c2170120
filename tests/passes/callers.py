"""A kernel that calls any function, so that the interpreter can say what the function does.

Scalars and tiles among the parameters are loaded from an array of their own; a tile of pointers
points to successive elements of one.
"""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np

from tileir.errors import InterpretError
from tileir.interp import interpret
from tileir.ir import Function, Module
from tileir.textual import parse, print_module
from tileir.types import AddressSpace, Pointer, Tile, Type, element_of

SIZE = 512
LIMIT = 20_000
DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def outcome(module: Module, name: str, seed: int) -> dict[str, bytes] | str:
    """The arrays that function `name` leaves when called with numbers drawn from `seed`, or the
    code of what stopped it."""
    types = [p.type for p in module.functions[name].parameters]
    if any(isinstance(pointee_of(t), Pointer) for t in types):
        return "an array of addresses has no numbers"
    if any(isinstance(t, Pointer) and t.space is AddressSpace.SHARED for t in types):
        return "no array is in shared memory"
    called = calling(module, module.functions[name])
    arrays = arguments(module.functions[name], seed)
    try:
        interpret(called, "caller", 1, arrays, limit=LIMIT)
    except InterpretError as error:
        return error.code
    return {name: array.tobytes() for name, array in arrays.items()}


def calling(module: Module, function: Function) -> Module:
    """`module` with a kernel `caller` that calls `function`, which returns nothing."""
    parameters, body, operands = [], [], []
    for number, parameter in enumerate(function.parameters):
        parameters.append(f"{pointee_of(parameter.type)}* %b{number}")
        body += _argument(parameter.type, f"%b{number}", f"%v{number}")
        operands.append(f"%v{number}")
    callee = function.evolve(kernel=False)
    text = print_module(module.with_functions({**module.functions, callee.name: callee}))
    call = f"call @{callee.name}" + "".join(f", {v}" for v in operands)
    lines = "\n".join(f"  {line}" for line in [*body, call, "ret"])
    blocks = function.attributes.get("cluster")
    attributes = f" {{cluster = {blocks}}}" if blocks else ""
    kernel = (
        f"define kernel void @caller({', '.join(parameters)}){attributes} {{\nentry:\n{lines}\n}}\n"
    )
    return parse(f"{text}\n{kernel}")


def _argument(type: Type, base: str, name: str) -> list[str]:
    """Ops that give `name` a value of `type` out of the array at `base`."""
    element, pointer = element_of(type), isinstance(element_of(type), Pointer)
    where, ops = base, []
    if isinstance(type, Tile):
        to = element if pointer else f"{element}*"
        shape = ", ".join(map(str, type.shape))
        ops = [
            f"{name}.s = splat {to}<{type.size}> {base}",
            f"{name}.r = make_range i32<{type.size}>",
            f"{name}.g = getelementptr {to}<{type.size}> {name}.s, {name}.r",
            f"{name}.p = reshape {to}<{shape}> {name}.g",
        ]
        where = f"{name}.p"
    if not pointer:
        return [*ops, f"{name} = load {type} {where}"]
    if isinstance(type, Tile):
        return [*ops, f"{name} = reshape {type} {where}"]
    return [f"{name} = getelementptr {type} {base}, i32 0"]


def arguments(function: Function, seed: int) -> dict[str, Any]:
    """An array per parameter of `function`, of small numbers."""
    generator = np.random.default_rng(zlib.crc32(function.name.encode()) + seed)
    by_name: dict[str, Any] = {}
    for number, parameter in enumerate(function.parameters):
        element = str(pointee_of(parameter.type))
        low, high = (0, 2) if element == "i1" else (-4, 7)
        by_name[f"b{number}"] = generator.integers(low, high, SIZE).astype(DTYPES[element])
    return by_name


def pointee_of(type: Type) -> Type:
    """What a pointer or tile of pointers points to; the element of anything else."""
    element = element_of(type)
    return element.pointee if isinstance(element, Pointer) else element
