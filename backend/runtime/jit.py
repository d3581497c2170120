"""Just-in-time compilation: kernels of modules are compiled at their launch and specialized to its
arguments.

    kernel = tileir.backend.jit(module)
    kernel[(blocks,)](x, y, n)                 x, y on a GPU: of torch, CuPy, JAX, numba, ...
    kernel[(blocks,)](x, y, n, stream=handle)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import attrs

from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.launch_arguments import launch_error
from tileir.backend.options import Options
from tileir.backend.runtime.array_protocols import array, is_array
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disjoint import separate as separate_module, separation
from tileir.backend.runtime.dispatch import BoundCall, Dispatcher, LaunchDevice
from tileir.backend.runtime.specialize import ArgumentFact, fact_of, specialize
from tileir.ir import Module, Parameter


@attrs.frozen(eq=False)
class LaunchPlace:
    """The GPUs to launch on (`machine`), the `target` to compile for, and the function `load`,
    which loads a compiled kernel."""

    machine: LaunchDevice
    target: str
    load: Callable[[CompiledKernel], Any]


class Jit:
    """A kernel of a module: `kernel[grid](*arguments, **named)` launches it and returns at once.

    Arguments are given by position or by name. The grid is a number, a tuple, or a function of the
    arguments by name. The kernel is specialized: it is compiled once for each combination of
    addresses and integers that are multiples of 16, and of integers that are 1, except for the
    parameters in `do_not_specialize`. Arrays that overlap are a further specialization if that
    matters (`tileir.backend.runtime.disjoint`).

    Several threads may launch the kernel. Launches use `stream`, or else the current stream of the
    arrays' library, and can be captured into CUDA graphs after the first launch. `place` is called
    on first use. Code is compiled for `target`, or else for the target of the place.

    Raises CompileError, and LaunchError (TIR0710) with the name of an argument that does not fit.
    """

    def __init__(
        self,
        module: Module,
        kernel: str | None = None,
        options: Options | Mapping[str, Any] | None = None,
        *,
        do_not_specialize: Sequence[str] = (),
        place: Callable[[], LaunchPlace],
        target: str | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.module, self.function = module, module.kernel(kernel)
        self.options, self.target = Options.of(options), target
        self.names = tuple(p.name or f"a{i}" for i, p in enumerate(self.function.parameters))
        self._plain = frozenset(do_not_specialize)
        self._cache = cache or Cache.usual()
        self._kernels: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._find_place = place
        self._dispatcher: Dispatcher | None = None

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launcher for `grid`."""
        dispatcher = self._dispatcher or self._make_dispatcher()
        return partial(dispatcher.call, grid)

    def compiled_for(self, *arguments: Any, **keywords: Any) -> CompiledKernel:
        """Return the compiled kernel that a launch with these arguments would run, without
        launching it."""
        values = self._values(arguments, keywords)
        return self._compile(self._facts(values), separate=bool(self._separate(values)))

    def _make_dispatcher(self) -> Dispatcher:
        self._dispatcher = Dispatcher(self._place.machine, self._resolve, self.names)
        return self._dispatcher

    @cached_property
    def _place(self) -> LaunchPlace:
        return self._find_place()

    def _resolve(self, _: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> BoundCall:
        values = self._values(arguments, keywords)
        facts, separate = self._facts(values), self._separate(values)
        key = (separate, *facts.items())
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._load_once(key, self._compile(facts, separate=bool(separate)))
        plan = kernel.compiled.plan
        return BoundCall(
            kernel, plan, tuple(values.values()), self.names, values, True, self._plain,
            separation=None if separate is None else separation(self.function),
            separate=bool(separate),
        )  # fmt: skip

    def _separate(self, values: Mapping[str, Any]) -> bool | None:
        """Whether the memory of the arguments does not overlap; None if that is unknown, or if no
        version of the kernel depends on it."""
        compared = separation(self.function)
        return None if compared is None else compared.decide(tuple(values.values()))

    def _load_once(self, key: Any, compiled: CompiledKernel) -> Any:
        """The loaded kernel of `key`. One thread compiles it."""
        with self._lock:
            if key not in self._kernels:
                self._kernels[key] = self._place.load(compiled)
            return self._kernels[key]

    def _values(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by the names of their parameters, in order."""
        by_name = dict(zip(self.names, arguments, strict=False))
        twice = by_name.keys() & keywords.keys()
        values = {**by_name, **keywords}
        if len(arguments) > len(self.names) or twice or values.keys() != set(self.names):
            raise launch_error(
                f"@{self.function.name} takes {', '.join(self.names)}, and not "
                f"{len(arguments)} arguments with {', '.join(keywords) or 'no names'}"
            )
        return {name: values[name] for name in self.names}

    def _facts(self, values: Mapping[str, Any]) -> dict[str, ArgumentFact]:
        facts: dict[str, ArgumentFact] = {}
        for parameter, (name, value) in zip(self.function.parameters, values.items(), strict=True):
            fact = None if name in self._plain else self._fact(parameter, name, value)
            if fact is not None:
                facts[name] = fact
        return facts

    def _fact(self, parameter: Parameter, name: str, value: Any) -> ArgumentFact | None:
        if is_array(value):
            value = array(value, name).address
        plain = isinstance(value, int) and not isinstance(value, bool)
        return fact_of(parameter, value) if plain else None

    def _compile(self, facts: Mapping[str, ArgumentFact], *, separate: bool) -> CompiledKernel:
        by_name = {
            p.name or f"a{i}": p.name or str(i) for i, p in enumerate(self.function.parameters)
        }
        known_facts = {by_name[name]: fact for name, fact in facts.items()}
        module, compared = self.module, separation(self.function)
        if separate and compared is not None:
            module = separate_module(module, self.function.name, compared.written)
        module = specialize(module, self.function.name, known_facts)
        target = self.target or self._place.target
        return self._cache.compile(module, target, self.options, self.function.name)
