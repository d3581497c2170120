"""Passes by name: the properties of a registered pass, and its lookup.

A pass is in the module of `tileir.passes` with its name (`simplify-cfg`:
`tileir.passes.simplify_cfg`), loaded on first use, or is registered by another distribution under
the entry point group `tileir.passes`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import typing
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from tileir.errors import Diagnostic, PassError
from tileir.ir import Function, Module
from tileir.passmanager.registry import DECLARED, PassResult, is_pass_name

_GROUP = "tileir.passes"


@attrs.frozen(eq=False, repr=False)
class Option:
    """An option of a pass.

    `type` is bool, int, float or str. `name` is written with dashes. `choices` are the values that
    a tuner tries; without any, the option is not tuned.
    """

    name: str
    type: type
    default: Any
    choices: tuple[Any, ...] = ()

    @property
    def keyword(self) -> str:
        """The name of the keyword parameter: `name` with underscores."""
        return self.name.replace("-", "_")

    def read(self, text: str) -> Any:
        """Parse a value of the option. Raises ValueError."""
        if self.type is bool:
            return {"true": True, "false": False}[text] if text in ("true", "false") else _bad()
        return self.type(text)


@attrs.frozen(eq=False, repr=False)
class Pass:
    """A registered pass.

    `level` is what its function takes: `function`, `module`, or `pipeline`. A pipeline takes a
    module and the `Recorder` that runs its steps.
    """

    name: str
    function: Callable[..., Any]
    level: str
    options: tuple[Option, ...]

    @property
    def summary(self) -> str:
        """The first line of the documentation of the pass."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    def __call__(self, ir: Any, **options: Any) -> PassResult:
        """Run the pass on a `Function` or `Module`. Raises TypeError if it returns anything
        else."""
        answer = self.function(ir, **options)
        outcome = answer if isinstance(answer, PassResult) else PassResult(answer)
        expected = Function if self.level == "function" else Module
        if not isinstance(outcome.ir, expected):
            name = type(outcome.ir).__name__
            raise TypeError(f"the pass returned {name}, not a {expected.__name__}")
        return outcome


_PASSES: dict[str, Pass] = {}


def _is_known(name: str) -> bool:
    return name in _PASSES or name in DECLARED


def _loaded_pass(name: str) -> Pass | None:
    """The loaded pass called `name`. Its annotations are read at the first lookup, so that passes
    which the backend calls directly cost no more than functions."""
    if name not in _PASSES and name in DECLARED:
        function, choices = DECLARED[name]
        hints, level = _annotations_of(name, function)
        options = tuple(
            Option(key.replace("_", "-"), hints[key], default, tuple(choices.get(key, ())))
            for key, default in (function.__kwdefaults__ or {}).items()
        )
        _PASSES[name] = Pass(name, function, level, options)
    return _PASSES.get(name)


def _annotations_of(name: str, function: Any) -> tuple[dict[str, Any], str]:
    """The annotations of a pass, and its level. Raises PassError if they do not determine the
    level."""
    subject = next(iter(function.__code__.co_varnames), "")
    try:
        hints = typing.get_type_hints(function)
        level = {Function: "function", Module: "module"}[hints[subject]]
        return hints, "pipeline" if function.__code__.co_argcount == 2 else level
    except (KeyError, NameError, TypeError) as error:
        message = f"the annotations of pass {name} do not say whether it takes a Function or a "
        raise PassError(Diagnostic("TIR0601", f"{message}Module: {error!r}")) from error


def lookup(name: str) -> Pass:
    """Return the pass called `name`. Raises PassError (TIR0601) if it does not exist or does not
    load."""
    if not _is_known(name) and is_pass_name(name):
        module = f"tileir.passes.{name.replace('-', '_')}"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    if not _is_known(name):
        _load_entry_points(name)
    result = _loaded_pass(name)
    if result is None:
        names = [p.name for p in all_passes()]
        from difflib import get_close_matches  # only for a mistake

        similar = get_close_matches(name, names)
        hint = (
            f"did you mean {' or '.join(similar)}?" if similar else f"there are: {', '.join(names)}"
        )
        raise PassError(Diagnostic("TIR0601", f"no pass is called {name!r}; {hint}"))
    return result


def all_passes() -> Iterator[Pass]:
    """Load all passes and return them, ordered by name."""
    package = importlib.import_module("tileir.passes")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"tileir.passes.{module.name}")
    _load_entry_points(None)
    result = (_loaded_pass(name) for name in sorted({*_PASSES, *DECLARED}))
    return iter([each for each in result if each is not None])


def _load_entry_points(name: str | None) -> None:
    import importlib.metadata  # slow, and needed for passes of other distributions only

    for point in importlib.metadata.entry_points(group=_GROUP):
        if name in (None, point.name) and not _is_known(point.name):
            try:
                point.load()
            except Exception as error:
                message = f"pass {point.name} ({point.value}) cannot be loaded: {error!r}"
                raise PassError(Diagnostic("TIR0601", message)) from error


def _bad() -> Any:
    raise ValueError("expected true or false")
