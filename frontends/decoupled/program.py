"""Kernel definitions as functions: parsing, schedules, compilation for sizes, and calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from tileir import Module
from tileir.builder import F32, I1, I32, I64
from tileir.frontends.decoupled.errors import error_at, launch_error
from tileir.frontends.decoupled.fusion import check, groups
from tileir.frontends.decoupled.model import Definitions, Func, add_directives, definitions
from tileir.frontends.decoupled.nodes import Directive, accesses
from tileir.frontends.decoupled.plan import (
    FuncPlan,
    complete_sizes,
    input_names,
    plan,
    scalar_names,
)
from tileir.frontends.decoupled.reading import read
from tileir.frontends.decoupled.reference import reference
from tileir.frontends.decoupled.schedule import Schedule
from tileir.frontends.decoupled.tensors import element_named, tensor_of
from tileir.process import collector_paused
from tileir.types import Scalar


@attrs.frozen(eq=False)
class Program:
    """A parsed kernel definition: algorithms, and a checked schedule."""

    definitions: Definitions

    @property
    def compiled_funcs(self) -> tuple[str, ...]:
        """The Funcs to which `compile` or `compile_to_kernel` is applied."""
        return self.definitions.compiled_funcs

    @property
    def funcs(self) -> Mapping[str, Func]:
        """All Funcs."""
        return self.definitions.funcs

    def with_schedule(self, source: str, file: str = "<schedule>") -> Program:
        """Return the program with the scheduling primitives in `source` added. Raises
        CompilationError."""
        result = read(source, file)
        directives = [s for s in result if isinstance(s, Directive)]
        if len(directives) != len(result):
            raise error_at("a schedule consists of scheduling primitives only", None)
        return _check(add_directives(self.definitions, directives))

    def without_schedule(self) -> Program:
        """Return the program without its schedule."""
        funcs = {n: attrs.evolve(f, schedule=Schedule()) for n, f in self.funcs.items()}
        return Program(attrs.evolve(self.definitions, funcs=funcs))

    def function(self, name: str | None = None) -> Wrapper:
        """Return the callable of the compiled Func `name`, or of the only one.

        Raises LaunchError if there is no such Func, or if `name` is None and there are several.
        """
        if name is None and len(self.compiled_funcs) == 1:
            (name,) = self.compiled_funcs
        if name is None or name not in self.compiled_funcs:
            listed = ", ".join(self.compiled_funcs) or "none: apply compile to one"
            raise launch_error(f"{name or 'no Func'} is not compiled; there are: {listed}")
        return Wrapper(self, name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the only function."""
        return self.function()(*arguments, **keywords)


@attrs.frozen(eq=False)
class Wrapper:
    """The callable of a Func; it returns the computed tensor.

    Positional arguments are its tensors, then its scalars, in the order of their declarations.
    Sizes that the shapes of the tensors do not determine are passed by name.
    """

    program: Program
    name: str
    _plans: dict[Any, FuncPlan] = attrs.field(factory=dict[Any, FuncPlan], init=False, repr=False)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors."""
        return input_names(self.program.definitions, self.name)

    @property
    def scalars(self) -> tuple[str, ...]:
        """The names of the scalars."""
        return scalar_names(self.program.definitions, self.name)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        result = groups(self.program.definitions, self.name)
        return tuple(dict.fromkeys(label for g in result for label in g.labels))

    def __call__(
        self,
        *arguments: Any,
        on: str | None = None,
        types: Mapping[str, Any] | None = None,
        out: Any = None,
        options: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> Any:
        """Compute. `on` names an executor (None: the host's processors), `types` the elements of
        Funcs (f32 where it does not), `out` an array for the result, `options` are the executor's.
        Raises LaunchError, CompilationError and what the executor raises."""
        bound, sizes = self._bound(arguments, keywords)
        result = self._plan(bound, sizes, types or {}, out)
        return result.run(bound, on, out, **(options or {}))

    def plan(
        self,
        *arguments: Any,
        types: Mapping[str, Any] | None = None,
        out: Any = None,
        **keywords: Any,
    ) -> FuncPlan:
        """Return the kernels, launches and buffers of a call with these arguments.

        A `Tensor` may stand for an array, an element type for a number. Raises CompilationError and
        LaunchError.
        """
        bound, sizes = self._bound(arguments, keywords)
        return self._plan(bound, sizes, types or {}, out)

    def reference(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the result of a call with these arrays, computed from the algorithm alone, by
        numpy in f64."""
        bound, sizes = self._bound(arguments, keywords)
        result = self._plan(bound, sizes, {}, None)
        return reference(self.program.definitions, self.name, bound, result.sizes)

    def test(self, on: str | None = None, seed: int = 0, **sizes: int) -> Callable[[], Any]:
        """The generated test function, without arguments.

        It calls this function with random f32 tensors and scalars 0.5, compares with `reference`,
        and returns the result. Sizes that the program does not state are 64.
        """

        def run() -> Any:
            rng = np.random.default_rng(seed)
            arguments = self.arguments(sizes, lambda shape: rng.random(shape, np.float32))
            keywords: dict[str, Any] = dict(sizes)
            result = self(*arguments, on=on, **keywords)
            expected = self.reference(*arguments, **sizes)
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
            return result

        return run

    def arguments(self, sizes: Mapping[str, int], make: Callable[[list[int]], Any]) -> list[Any]:
        """Return sample arguments: `make` of the shape for each tensor, and 0.5 for each scalar.

        Sizes that the program does not state are 64.
        """
        funcs = [f for g in groups(self.program.definitions, self.name) for f in g.funcs]
        shapes = complete_sizes(funcs, sizes, 64)
        read = {a.name: a.labels for f in funcs for a in accesses(f.value)}
        tensors = [make([shapes[n] for n in read[name]]) for name in self.tensors]
        return [*tensors, *(0.5 for _ in self.scalars)]

    def module(self, *arguments: Any, **keywords: Any) -> Module:
        """Return the module that a call with these arguments runs; arguments are those of
        `plan`."""
        return self.plan(*arguments, **keywords).module

    def _bound(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, int]]:
        names = (*self.tensors, *self.scalars)
        if len(arguments) > len(names):
            takes = ", ".join(names) or "nothing"
            raise launch_error(f"{self.name} takes {takes}; there are {len(arguments)} arguments")
        bound: dict[str, Any] = dict(zip(names, arguments, strict=False))
        sizes: dict[str, int] = {}
        for name, value in keywords.items():
            if name in names and name not in bound:
                bound[name] = value
            elif name in self.labels:
                sizes[name] = _size(name, value)
            else:
                why = "is given twice" if name in bound else "is not an argument"
                raise launch_error(f"{self.name}: {name} {why}")
        missing = [n for n in names if n not in bound]
        if missing:
            raise launch_error(f"{self.name} needs {', '.join(missing)}")
        return bound, sizes

    def _plan(
        self, bound: Mapping[str, Any], sizes: dict[str, int], types: Mapping[str, Any], out: Any
    ) -> FuncPlan:
        tensors = {n: tensor_of(n, bound[n]) for n in self.tensors}
        scalars = {n: _scalar(n, bound[n]) for n in self.scalars}
        if not isinstance(types, Mapping):
            raise launch_error("types is a dict from Funcs to types")
        elements = {n: element_named(word, n) for n, word in types.items()}
        unknown = elements.keys() - self.program.funcs.keys()
        if unknown:
            raise launch_error(f"types are given for Funcs, not for {', '.join(sorted(unknown))}")
        for name, tensor in tensors.items():
            if 0 in tensor.shape:
                raise launch_error(f"{name} has no elements")
        result = None if out is None else tensor_of(self.name, out)
        key = tuple(map(_frozen, (tensors, scalars, sizes, elements))), result
        if key not in self._plans:
            defined = self.program.definitions
            self._plans[key] = plan(defined, self.name, tensors, scalars, sizes, elements, result)
        return self._plans[key]


@collector_paused()
def parse(source: str, file: str = "<string>") -> Program:
    """Parse a kernel definition and check its schedule.

    `file` is the file name in errors. Raises CompilationError.
    """
    return _check(definitions(read(source, file)))


def _check(defined: Definitions) -> Program:
    check(defined)
    return Program(defined)


def _frozen(items: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(items.items(), key=lambda pair: pair[0]))


def _size(name: str, value: Any) -> int:
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise launch_error(f"{name} is a size of at least 1, not {value!r}")
    return int(value)


def _scalar(name: str, value: Any) -> Scalar:
    if isinstance(value, Scalar):
        return value
    if isinstance(value, (bool, np.bool_)):
        return I1
    if isinstance(value, np.generic):
        return element_named(str(value.dtype), name)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise launch_error(f"{name} is {value}, which is in the range of no integer type")
        return I32 if -(1 << 31) <= value < 1 << 31 else I64
    if isinstance(value, float):
        return F32
    raise launch_error(f"{name} is a number, not a {type(value).__name__}")
