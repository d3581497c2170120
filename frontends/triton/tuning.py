"""`@autotune` and `@heuristics`: parameters that the launcher chooses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tileir import records
from tileir.errors import TileirError
from tileir.executor import executor
from tileir.frontends.triton.errors import refused
from tileir.frontends.triton.source import Source
from tileir.frontends.triton.tensor import described
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor
from tileir.measuring import Measuring


@records.frozen(eq=False)
class Config:
    """Values for the parameters `kwargs`, and options of the launch."""

    kwargs: Mapping[str, Any]
    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int = 1
    maxnreg: int | None = None
    pre_hook: Callable[..., Any] | None = None

    def all_kwargs(self) -> dict[str, Any]:
        """Parameters and options of the launch."""
        options = {
            "num_warps": self.num_warps, "num_stages": self.num_stages, "maxnreg": self.maxnreg,
        }  # fmt: skip
        return {**self.kwargs, **{k: v for k, v in options.items() if v is not None}}


class Autotuner:
    """A kernel with several configurations. The fastest is kept for each value of the arguments
    named by `key` and each kind of array; with `cache_results` measurements outlive the process.

    Configurations are compiled side by side and measured by the executor, where it is
    `tileir.measuring.Measuring`; elsewhere each is launched twice, and the host's clock counts."""

    def __init__(
        self, kernel: Any, configs: Sequence[Config], key: Sequence[str], **options: Any
    ) -> None:
        _check_kernel(kernel, "autotune")
        for config in configs:
            if not isinstance(config, Config):
                raise refused(f"configurations are made by Config, not {described(config)}")
        self.kernel, self.configs, self.key = kernel, list(configs) or [Config({})], tuple(key)
        self._prune = options.get("prune_configs_by") or {}
        self._restored = [
            *(options.get("reset_to_zero") or ()),
            *(options.get("restore_value") or ()),
        ]
        self._remember = bool(options.get("cache_results"))
        self._best: dict[Any, Config] = {}
        self.configs_timings: dict[Config, float] = {}
        """Seconds of the configurations that were tried last."""
        self.source, self.__name__ = kernel.source, kernel.__name__

    @property
    def best_config(self) -> Config:
        """The configuration chosen last."""
        return list(self._best.values())[-1]

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*arguments: Any, **named: Any) -> Any:
            return self.run(*arguments, grid=grid, **named)

        return launch

    def run(self, *arguments: Any, grid: Any, **named: Any) -> Any:
        """Launch in the best configuration, found on the first launch of its kind. Raises
        LaunchError where no configuration compiles."""
        values = self._by_name(arguments, named)
        key = self._key(values)
        if key not in self._best:
            self._best[key] = self._fastest(arguments, grid, named, values)
        best = self._best[key]
        _prepare(best, values)
        return self.kernel[grid](*arguments, **{**named, **best.all_kwargs()})

    def _by_name(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, but for what configurations give."""
        given = self.configs[0].kwargs
        names = [n for n in self.kernel.source.signature.parameters if n not in given]
        return {**dict(zip(names, arguments, strict=False)), **named}

    def _key(self, values: Mapping[str, Any]) -> Any:
        kinds = tuple(str(v.dtype) for v in values.values() if hasattr(v, "dtype"))
        return (*(values.get(n) for n in self.key), *kinds)

    def _fastest(
        self,
        arguments: Sequence[Any],
        grid: Any,
        named: Mapping[str, Any],
        values: Mapping[str, Any],
    ) -> Config:
        configs = self._pruned(values, named)
        if len(configs) == 1:
            return configs[0]
        copies = [_copy(a) for a in arguments]
        others = {k: _copy(v) for k, v in named.items()}
        found = self._measured(configs, copies, grid, others)
        times = {i: t for i, t in enumerate(found) if not isinstance(t, TileirError)}
        self.configs_timings = {configs[i]: seconds for i, seconds in times.items()}
        if not times:
            raise refused(f"no configuration of {self.__name__} compiles: {found[0]}")
        return configs[min(times, key=lambda i: times[i])]

    def _measured(
        self,
        configs: Sequence[Config],
        arguments: Sequence[Any],
        grid: Any,
        named: Mapping[str, Any],
    ) -> list[float | TileirError]:
        """Seconds of each configuration, or its error: by the executor, where that measures."""
        launches: list[Any] = [self._prepared(c, arguments, grid, named) for c in configs]
        good = [x for x in launches if not isinstance(x, TileirError)]
        there = executor(good[0].where) if good else None
        if not isinstance(there, Measuring):
            return [x if isinstance(x, TileirError) else _timed(there, x) for x in launches]
        values = {name: value for x in good for name, value in x.values.items()}
        times = iter(there.measure([x.candidate for x in good], values, remember=self._remember))
        return [x if isinstance(x, TileirError) else next(times) for x in launches]

    def _prepared(
        self, config: Config, arguments: Sequence[Any], grid: Any, named: Mapping[str, Any]
    ) -> Any:
        """What the configuration would launch, or why it cannot."""
        try:
            _prepare(config, self._by_name(arguments, named))
            return self.kernel.prepared(*arguments, grid=grid, **{**named, **config.all_kwargs()})
        except TileirError as error:
            return error

    def _pruned(self, values: Mapping[str, Any], named: Mapping[str, Any]) -> list[Config]:
        """The configurations worth trying, by functions of the user's."""
        early, model = (self._prune.get(name) for name in ("early_config_prune", "perf_model"))
        found = list(early(self.configs, values, **named) if early else self.configs)
        if not found:
            raise refused(f"early_config_prune leaves no configuration of {self.__name__}")
        if model is None:
            return found
        most = self._prune.get("top_k", 1.0)
        kept = int(len(found) * most) if isinstance(most, float) and most <= 1.0 else int(most)
        return sorted(found, key=lambda c: model(**values, **c.all_kwargs()))[: max(1, kept)]


def _prepare(config: Config, values: Mapping[str, Any]) -> None:
    """What the configuration wants done to the arguments before each launch."""
    if config.pre_hook is not None:
        config.pre_hook({**values, **config.all_kwargs()})


def _timed(there: Any, launch: Any) -> float | TileirError:
    """Seconds of the second of two launches, by the clock of the host."""
    candidate = launch.candidate

    def once() -> float:
        start = time.perf_counter()
        there.launch(
            candidate.module, candidate.kernel, candidate.grid, launch.values, **candidate.options
        )
        return time.perf_counter() - start

    try:
        once()
        return once()
    except TileirError as error:
        return error


def _check_kernel(kernel: Any, decorator: str) -> None:
    """Raises LaunchError where `kernel` is none."""
    if not isinstance(getattr(kernel, "source", None), Source):
        raise refused(f"{decorator} is of kernels, not of {described(kernel)}: jit stands below it")


def _copy(value: Any) -> Any:
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        return getattr(type(items), "_make", tuple)(map(_copy, items))
    if isinstance(value, TensorDescriptor):
        return records.evolve(value, base=_copy(value.base))
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.clone() if hasattr(value, "clone") else value


def autotune(configs: Sequence[Config], key: Sequence[str], **options: Any) -> Any:
    """Choose the fastest of `configs` for every value of the arguments named in `key`."""
    return lambda kernel: Autotuner(kernel, configs, key, **options)


class Heuristics:
    """A kernel some of whose parameters are computed from the other arguments."""

    def __init__(self, kernel: Any, values: Mapping[str, Callable[..., Any]]) -> None:
        _check_kernel(kernel, "heuristics")
        self.kernel, self.values = kernel, values
        self.source, self.__name__ = kernel.source, kernel.__name__

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*arguments: Any, **named: Any) -> Any:
            return self.run(*arguments, grid=grid, **named)

        return launch

    def run(self, *arguments: Any, grid: Any, **named: Any) -> Any:
        """Launch with the computed parameters."""
        return self.kernel.run(*arguments, grid=grid, **self._computed(arguments, named))

    def prepared(self, *arguments: Any, grid: Any, **named: Any) -> Any:
        """What `run` would launch."""
        return self.kernel.prepared(*arguments, grid=grid, **self._computed(arguments, named))

    def _computed(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        known = dict(zip(self.kernel.source.signature.parameters, arguments, strict=False))
        known.update(named)
        computed = dict(named)
        for name, compute in self.values.items():
            known[name] = computed[name] = compute(known)
        return computed


def heuristics(values: Mapping[str, Callable[..., Any]]) -> Any:
    """Compute parameters from the other arguments: `@heuristics({"EVEN": lambda a: ...})`."""
    return lambda kernel: Heuristics(kernel, values)
