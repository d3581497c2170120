"""Declarations of passes, and their results.

    @pass_("licm")
    def licm(function: Function, *, max_depth: int = 8) -> Function:
        ...

The keyword arguments are the pass's options, `licm{max-depth=2}`, with the types and defaults of
their annotations. `@pass_("licm", choices={"max_depth": (2, 4, 8)})` makes an option a tuning
parameter, with the values that a tuner tries. `tileir.passmanager.find_passes` finds passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import attrs

from tileir.errors import Diagnostic, Location, Severity
from tileir.ir import Function, Module

_F = TypeVar("_F", bound=Callable[..., Any])


@attrs.frozen(eq=False, repr=False)
class PassResult:
    """The result of a pass: the new IR, remarks with locations, and statistics by name."""

    ir: Function | Module
    remarks: tuple[Diagnostic, ...] = ()
    statistics: Mapping[str, int] = attrs.field(factory=dict)


def is_pass_name(name: str) -> bool:
    """Whether a pass may have `name`: small letters, digits and dashes, a letter first."""
    word = name.replace("-", "")
    return name[:1].isalpha() and word.isascii() and word.isalnum() and word == word.lower()


DECLARED: dict[str, tuple[Any, Mapping[str, Sequence[Any]]]] = {}
"""Functions of passes, and the choices of their options."""


def pass_(name: str, choices: Mapping[str, Sequence[Any]] = {}) -> Callable[[_F], _F]:
    """Register the decorated function as the pass `name`; it stays an ordinary function.

    `choices` gives values for a tuner to try, by option (keyword).
    """

    def define(function: _F) -> _F:
        unknown = sorted(choices.keys() - (cast(Any, function).__kwdefaults__ or {}))
        if unknown:
            raise TypeError(f"pass {name} has no option {', '.join(unknown)} to have choices of")
        if name in DECLARED or not function.__doc__ or not is_pass_name(name):
            raise TypeError(f"pass {name} needs a docstring and a name of its own")
        DECLARED[name] = function, choices
        return function

    return define


def remark(
    code: str, message: str, location: Location | None = None, notes: tuple[Diagnostic, ...] = ()
) -> Diagnostic:
    """Return a remark at the user's line: what a pass did, or why it did nothing."""
    return Diagnostic(code, message, location, Severity.REMARK, notes)
