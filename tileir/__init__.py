"""tileir: Triton-IR, a typed single-assignment IR whose values are tiles.

**Values.** A value is a scalar (`i32`, `f32`, `f32*`) or a tile: an array of scalars or pointers
whose shape is part of its type (`f32<64, 128>`). Any positive extent is legal. Integers are
signless: an op defines whether it reads them as signed. Types never change and are compared by
identity.

**Programs.** A module holds functions, globals and metadata. A kernel is run once per program
instance of a grid of up to three dimensions; an instance is one sequential stream, and
`program_id` is its index. Instances run in any order: two of them may access one address only by
atomic ops or by reading. A function is a graph of basic blocks. Blocks have
parameters, and a branch passes one argument per parameter; in text they are `phi`s at the
block's head. Every value is defined once, and its definition dominates its uses.

**Ops.** An op is an immutable object: operands, attributes, results. It computes each result from
its operands alone, besides the effects that its class states. `Op.evaluate` defines its meaning. A
compiled program is correct if it agrees with that, within the op's numerics class: exact, correctly
rounded, or within n units in the last place. Nothing is reassociated unless the op allows it.

**Predication.** `@%p` before an op switches it off, lane by lane, where `%p` is false: a lane
that is off has no effect and an undefined result. `psi` merges values under complementary
predicates. A masked load without `other` gives undefined lanes too. A visible use of an
undefined lane (an address, a branch, a stored element) is an error that the interpreter reports.

**Memory.** Pointers have an address space and an element type. An access outside of its buffer is
an error unless its lane is masked off. It is also an error if two instances access one address
without atomic ops and one of them writes. An `i1` in memory is a byte, 0 or 1.

**Errors** are `TileirError`s: a code (`tileir explain TIR0101`), a message, a location.

    module = tileir.textual.parse(text)  # or the module of a `tileir.builder.Builder`
    tileir.verify(module)
    tileir.interpret(module, kernel, grid, arguments)
    tileir.backend.compile(module, target="sm_90a")
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from tileir.process import collector_paused

with collector_paused():  # what is imported stays
    from tileir.verify import verify  # at once: the package `verify` would hide a lazy function

if TYPE_CHECKING:
    from types import ModuleType

    from tileir import (
        backend as backend,
        builder as builder,
        frontends as frontends,
        testing as testing,
        textual as textual,
        tools as tools,
    )
    from tileir.errors import (
        BuildError,
        CompileError,
        DefectError,
        Diagnostic,
        InfeasibleError,
        InterpretError,
        LaunchError,
        LinkError,
        Location,
        ParseError,
        PassError,
        Severity,
        TileirError,
        ToolError,
        UnsupportedError,
        VerifyError,
    )
    from tileir.interp import interpret
    from tileir.ir import Block, Function, Global, Module, Parameter, ParameterAttributes
    from tileir.linker import link
    from tileir.op import Op

__version__ = "0.1.0"

__all__ = [
    "Block",
    "BuildError",
    "CompileError",
    "DefectError",
    "Diagnostic",
    "Function",
    "Global",
    "InfeasibleError",
    "InterpretError",
    "LaunchError",
    "LinkError",
    "Location",
    "Module",
    "Op",
    "Parameter",
    "ParameterAttributes",
    "ParseError",
    "PassError",
    "Severity",
    "TileirError",
    "ToolError",
    "UnsupportedError",
    "VerifyError",
    "interpret",
    "link",
    "verify",
]

_MODULES = {
    "errors": (
        "BuildError", "CompileError", "DefectError", "Diagnostic", "InfeasibleError",
        "InterpretError", "LaunchError", "LinkError", "Location", "ParseError", "PassError",
        "Severity", "TileirError", "ToolError", "UnsupportedError", "VerifyError",
    ),
    "interp": ("interpret",),
    "ir": ("Block", "Function", "Global", "Module", "Parameter", "ParameterAttributes"),
    "linker": ("link",),
    "op": ("Op",),
}  # fmt: skip
_MODULE = {name: module for module, names in _MODULES.items() for name in names}
_PARTS = ("backend", "builder", "frontends", "testing", "textual", "tools")

# A Python started in a checkout finds this folder before any installed one, its parts next to it.
_ABOVE = os.path.dirname(os.path.dirname(__file__))
if os.path.exists(os.path.join(_ABOVE, "setup.py")):
    __path__.append(_ABOVE)


def __getattr__(name: str) -> Any:
    """Public names and parts are imported on first use, so that a tool pays for what it uses."""
    if name in _PARTS:
        return _part(name)
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'tileir' has no attribute {name!r}")
    result = getattr(importlib.import_module(f"tileir.{module}"), name)
    globals()[name] = result
    return result


def _part(name: str) -> ModuleType:
    return importlib.import_module(f"tileir.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
