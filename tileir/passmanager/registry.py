"""Passes by name: what one is, how it is declared and found.

    @pass_("licm")
    def licm(function: Function, *, max_depth: int = 8) -> Function:
        ...

The keyword arguments are the pass's options, `licm{max-depth=2}`, with the types and defaults of
their annotations. `@pass_("licm", choices={"max_depth": (2, 4, 8)})` makes an option a
meta-parameter, with the values that a tuner tries. A pass is in the module of `tileir.passes` with
its name (`simplify-cfg`: `tileir.passes.simplify_cfg`), loaded on first use, or is registered by
another distribution under the entry point group `tileir.passes`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import attrs

from tileir.errors import Diagnostic, Location, PassError, Severity
from tileir.ir import Function, Module

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_GROUP = "tileir.passes"
_F = TypeVar("_F", bound=Callable[..., Any])


@attrs.frozen(eq=False, repr=False)
class Option:
    """A pass's option: `type` is bool, int, float or str; `name` as written, with dashes;
    `choices` are the values that a tuner tries, none where tuning it makes no sense."""

    name: str
    type: type
    default: Any
    choices: tuple[Any, ...] = ()

    @property
    def keyword(self) -> str:
        """The name of the keyword parameter: `name` with underscores."""
        return self.name.replace("-", "_")

    def read(self, text: str) -> Any:
        """The value that `text` stands for. Raises ValueError."""
        if self.type is bool:
            return {"true": True, "false": False}[text] if text in ("true", "false") else _bad()
        return self.type(text)


@attrs.frozen(eq=False, repr=False)
class PassResult:
    """What a pass gives: the new IR, remarks at the user's lines, and counts of what it did."""

    ir: Function | Module
    remarks: tuple[Diagnostic, ...] = ()
    statistics: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(eq=False, repr=False)
class Pass:
    """A registered pass. `level` is what its function takes: `function` or `module`, or
    `pipeline` for a module and the `Recorder` that it hands the steps of its own to."""

    name: str
    function: Callable[..., Any]
    level: str
    options: tuple[Option, ...]

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    def __call__(self, ir: Any, **options: Any) -> PassResult:
        """Run it on a `Function` or `Module`. Raises TypeError where it gives something else."""
        answer = self.function(ir, **options)
        outcome = answer if isinstance(answer, PassResult) else PassResult(answer)
        expected = Function if self.level == "function" else Module
        if not isinstance(outcome.ir, expected):
            name = type(outcome.ir).__name__
            raise TypeError(f"the pass returned {name}, not a {expected.__name__}")
        return outcome


_PASSES: dict[str, Pass] = {}
_DECLARED: dict[str, tuple[Any, Mapping[str, Sequence[Any]]]] = {}
"""Functions of passes, and the choices of their options."""


def pass_(name: str, choices: Mapping[str, Sequence[Any]] = {}) -> Callable[[_F], _F]:
    """Register the decorated function as the pass `name`; it stays an ordinary function.

    `choices` are values worth trying of options, by keyword.
    """

    def define(function: _F) -> _F:
        unknown = sorted(choices.keys() - (cast(Any, function).__kwdefaults__ or {}))
        if unknown:
            raise TypeError(f"pass {name} has no option {', '.join(unknown)} to have choices of")
        if _is_known(name) or not function.__doc__ or not _NAME.fullmatch(name):
            raise TypeError(f"pass {name} needs a docstring and a name of its own")
        _DECLARED[name] = function, choices
        return function

    return define


def _is_known(name: str) -> bool:
    return name in _PASSES or name in _DECLARED


def _loaded_pass(name: str) -> Pass | None:
    """The pass called `name` of those loaded. Its annotations are read when it is first asked for,
    so that passes which the backend calls by themselves cost no more than functions."""
    if name not in _PASSES and name in _DECLARED:
        function, choices = _DECLARED[name]
        hints, level = _annotations_of(name, function)
        options = tuple(
            Option(key.replace("_", "-"), hints[key], default, tuple(choices.get(key, ())))
            for key, default in (function.__kwdefaults__ or {}).items()
        )
        _PASSES[name] = Pass(name, function, level, options)
    return _PASSES.get(name)


def _annotations_of(name: str, function: Any) -> tuple[dict[str, Any], str]:
    """The annotations of a pass, and whether it takes functions or modules, or is a pipeline.
    Raises PassError where they do not say."""
    subject = next(iter(function.__code__.co_varnames), "")
    try:
        hints = typing.get_type_hints(function)
        level = {Function: "function", Module: "module"}[hints[subject]]
        return hints, "pipeline" if function.__code__.co_argcount == 2 else level
    except (KeyError, NameError, TypeError) as error:
        message = f"the annotations of pass {name} do not say whether it takes a Function or a "
        raise PassError(Diagnostic("TIR0601", f"{message}Module: {error!r}")) from error


def lookup(name: str) -> Pass:
    """The pass called `name`. Raises PassError (TIR0601) where there is none, or it
    does not load."""
    if not _is_known(name) and _NAME.fullmatch(name):
        module = f"tileir.passes.{name.replace('-', '_')}"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    if not _is_known(name):
        _load_entry_points(name)
    result = _loaded_pass(name)
    if result is None:
        names = ", ".join(p.name for p in all_passes())
        raise PassError(Diagnostic("TIR0601", f"no pass is called {name!r}; there are: {names}"))
    return result


def all_passes() -> Iterator[Pass]:
    """Every pass, ordered by name; loads them all."""
    package = importlib.import_module("tileir.passes")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"tileir.passes.{module.name}")
    _load_entry_points(None)
    result = (_loaded_pass(name) for name in sorted({*_PASSES, *_DECLARED}))
    return iter([each for each in result if each is not None])


def remark(
    code: str, message: str, location: Location | None = None, notes: tuple[Diagnostic, ...] = ()
) -> Diagnostic:
    """A remark: what a pass did, or why it did not, at the user's line."""
    return Diagnostic(code, message, location, Severity.REMARK, notes)


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
