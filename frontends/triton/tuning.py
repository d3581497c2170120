"""`@autotune` and `@heuristics`: parameters that the launcher chooses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import attrs
import numpy as np

from tileir.errors import TileirError
from tileir.executor import executor
from tileir.frontends.triton.errors import launch_error
from tileir.frontends.triton.interface import KernelInterface
from tileir.frontends.triton.language.control import unwrap
from tileir.frontends.triton.source import FunctionSource
from tileir.frontends.triton.tensor import describe
from tileir.frontends.triton.testing import do_bench
from tileir.frontends.triton.tools.tensor_descriptor import TensorDescriptor
from tileir.measuring import Measuring


@attrs.frozen
class Config:
    """A configuration: values of the parameters `kwargs`, and options of the launch."""

    kwargs: Mapping[str, Any]
    num_warps: int | None = None
    num_stages: int | None = None
    num_ctas: int | None = None
    maxnreg: int | None = None
    pre_hook: Callable[..., Any] | None = None
    ir_override: str | None = None

    def options(self) -> dict[str, Any]:
        """The options of the launch that are not None."""
        names = ("num_warps", "num_ctas", "num_stages", "maxnreg", "ir_override")
        return {n: value for n in names if (value := getattr(self, n)) is not None}

    def all_kwargs(self) -> dict[str, Any]:
        """Return the values of parameters and the options of the launch."""
        return {**self.kwargs, **self.options()}

    def __hash__(self) -> int:
        return hash((tuple(self.kwargs), *self.options().items(), self.pre_hook))

    def __str__(self) -> str:
        return ", ".join(f"{k}: {v}" for k, v in self.all_kwargs().items())


class Autotuner(KernelInterface):
    """A kernel with several configurations, of which it launches the fastest.

    The fastest configuration is stored for each value of the arguments named by `key` and each kind
    of array; with `cache_results` measurements are stored on disk, too.

    Configurations are compiled in parallel and measured on copies of the arguments if the executor
    can measure (`tileir.measuring.Measuring`). Otherwise each one is launched twice and timed by
    the host's clock. With `do_bench` or hooks of the user, each configuration is passed to
    `do_bench` with the arguments themselves, as Triton does. A configuration that does not compile
    or run is left out.
    """

    def __init__(
        self, kernel: Any, configs: Sequence[Config], key: Sequence[str], **options: Any
    ) -> None:
        _check_kernel(kernel, "autotune")
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise launch_error(f"autotune has no option {', '.join(sorted(unknown))}")
        for config in configs:
            if not isinstance(config, Config):
                raise launch_error(f"configurations are made by Config, not {describe(config)}")
        self.kernel = self.fn = kernel
        self.configs, self.keys = list(configs) or [Config({})], list(key)
        self._prune = options.get("prune_configs_by") or {}
        self.reset_to_zero = list(options.get("reset_to_zero") or ())
        self.restore_value = list(options.get("restore_value") or ())
        self.pre_hook, self.post_hook = options.get("pre_hook"), options.get("post_hook")
        self._do_bench = options.get("do_bench") or _benchmark(options)
        self._remember = bool(options.get("cache_results"))
        self.cache: dict[Any, Config] = {}
        """The configuration of each key."""
        self.configs_timings: dict[Config, Any] = {}
        """The times of the configurations that were measured last: seconds, or the results of
        `do_bench`."""
        self.best_config: Config = self.configs[0]
        """The configuration launched last."""
        self.bench_time = 0.0
        """Seconds that choosing took, the last time."""
        self.source, self.__name__ = kernel.source, kernel.__name__
        self.__doc__ = kernel.__doc__
        self._names, self._kinds = self.arg_names, dict[Any, str]()

    @property
    def arg_names(self) -> list[str]:
        """The names of the kernel's parameters."""
        return list(self.source.signature.parameters)

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **keywords: Any) -> Any:
        """Launch the fastest configuration, which the first launch with each key determines. Raises
        LaunchError if no configuration runs."""
        positional = dict(zip(self._names, arguments, strict=False))
        if warmup:
            configs = self._prune_configs(positional, keywords)
            return [
                self.kernel.warmup(*arguments, grid=grid, **_with(keywords, c)) for c in configs
            ]
        values = positional | keywords
        key = self._key(values)
        best = self.cache.get(key)
        if best is None:
            start = time.perf_counter()
            best = self.cache[key] = self._fastest(arguments, grid, keywords, positional)
            self.bench_time = time.perf_counter() - start
        self.best_config = best
        _prepare(best, values)
        return self.kernel[grid](*arguments, **_with(keywords, best))

    def _key(self, values: Mapping[str, Any]) -> Any:
        """The values of the arguments in `keys`, then the element types of all arrays by name."""
        key = [unwrap(values.get(n)) for n in self.keys]
        for value in values.values():
            kind = getattr(value, "dtype", None)
            if kind is not None:
                name = self._kinds.get(kind)
                if name is None:
                    name = self._kinds[kind] = str(kind)
                key.append(name)
        return tuple(key)

    def _fastest(
        self,
        arguments: Sequence[Any],
        grid: Any,
        keywords: Mapping[str, Any],
        positional: Mapping[str, Any],
    ) -> Config:
        configs = self._prune_configs(positional, keywords)
        duplicate = next((n for c in configs for n in c.kwargs if n in keywords), None)
        if duplicate is not None:
            raise launch_error(
                f"{self.__name__}: {duplicate} is given, and by the configurations too"
            )
        if len(self.configs) == 1:
            return configs[0]
        if self._do_bench or self.pre_hook or self.post_hook:
            result = [self._bench(c, arguments, grid, keywords, positional) for c in configs]
        else:
            copies = [_copy(a) for a in arguments]
            copied_keywords = {k: _copy(v) for k, v in keywords.items()}
            result = self._measure(configs, copies, grid, copied_keywords)
        times = {i: t for i, t in enumerate(result) if not isinstance(t, TileirError)}
        self.configs_timings = {configs[i]: seconds for i, seconds in times.items()}
        if not times:
            raise launch_error(
                f"no configuration of {self.__name__} compiles and runs: {result[0]}"
            )
        best = configs[min(times, key=lambda i: times[i])]
        self._before({**positional, **keywords, **best.all_kwargs()}, reset_only=True)
        return best

    # Measuring as Triton does -----------------------------------------------------------------

    def _before(self, values: Mapping[str, Any], *, reset_only: bool = False) -> dict[str, Any]:
        """The hook before each measured launch, the hook after all of them, and copies of the
        arrays to restore."""
        if self.pre_hook is not None:
            options = {"reset_only": True} if reset_only else {}
            self.pre_hook(values, **options)
            return {}
        for name in self.reset_to_zero:
            _fill(values[name])
        return {} if reset_only else {name: _copy(values[name]) for name in self.restore_value}

    def _after(self, values: Mapping[str, Any], saved: Mapping[str, Any], error: Any) -> None:
        if self.post_hook is not None:
            self.post_hook(values, exception=error)
            return
        for name, value in saved.items():
            _fill(values[name], value)

    def _bench(
        self,
        config: Config,
        arguments: Sequence[Any],
        grid: Any,
        keywords: Mapping[str, Any],
        positional: Mapping[str, Any],
    ) -> Any:
        """The result of `do_bench` for a configuration, or the error of its launch."""
        current = _with(keywords, config)
        values = {**positional, **current}

        def launch() -> None:
            _prepare(config, values)
            saved = self._before(values)
            try:
                self.kernel[grid](*arguments, **current)
            except Exception as error:
                self._after(values, saved, error)
                raise
            self._after(values, saved, None)

        try:
            result = (self._do_bench or do_bench)(launch, quantiles=(0.5, 0.2, 0.8))
        except TileirError as error:
            return error
        return list(result) if isinstance(result, (list, tuple)) else [result]

    # Measuring by the executor ------------------------------------------------------------------

    def _measure(
        self,
        configs: Sequence[Config],
        arguments: Sequence[Any],
        grid: Any,
        keywords: Mapping[str, Any],
    ) -> list[float | TileirError]:
        """Seconds of each configuration, or its error: by the executor, where that measures."""
        launches: list[Any] = [self._prepare_launch(c, arguments, grid, keywords) for c in configs]
        good = [x for x in launches if not isinstance(x, TileirError)]
        runner = executor(good[0].where) if good else None
        if not isinstance(runner, Measuring):
            return [x if isinstance(x, TileirError) else _time_launch(runner, x) for x in launches]
        if good[0].where != "gpu":  # accesses are not looked at where they are measured
            launches = [
                x if isinstance(x, TileirError) else _try_launch(runner, x) for x in launches
            ]
            good = [x for x in launches if not isinstance(x, TileirError)]
        values = {name: value for x in good for name, value in x.values.items()}
        times = iter(runner.measure([x.candidate for x in good], values, remember=self._remember))
        return [x if isinstance(x, TileirError) else next(times) for x in launches]

    def _prepare_launch(
        self, config: Config, arguments: Sequence[Any], grid: Any, keywords: Mapping[str, Any]
    ) -> Any:
        """The launch of the configuration, or the error that prevents it."""
        try:
            positional = dict(zip(self.arg_names, arguments, strict=False))
            _prepare(config, {**positional, **keywords})
            return self.kernel.prepare(*arguments, grid=grid, **_with(keywords, config))
        except TileirError as error:
            return error

    def _prune_configs(
        self, positional: Mapping[str, Any], keywords: Mapping[str, Any]
    ) -> list[Config]:
        """The configurations that remain after pruning by the user's functions."""
        prune, model = (self._prune.get(name) for name in ("early_config_prune", "perf_model"))
        configs = list(prune(self.configs, dict(positional), **keywords) if prune else self.configs)
        if not configs:
            raise launch_error(f"early_config_prune leaves no configuration of {self.__name__}")
        if model is None:
            return configs
        most = self._prune.get("top_k", 1.0)
        if isinstance(most, bool) or not isinstance(most, (int, float)) or most != most:
            raise launch_error(
                f"top_k is a share of 1.0 or a number of configurations, not {most!r}"
            )
        part = isinstance(most, float) and most <= 1.0
        limit = max(1, int(len(self.configs) * most) if part else int(most))
        if len(configs) <= limit:
            return configs
        values = {**positional, **keywords}
        return sorted(configs, key=lambda c: model(**values, **c.all_kwargs()))[:limit]


_OPTIONS = frozenset({
    "prune_configs_by", "reset_to_zero", "restore_value", "pre_hook", "post_hook", "warmup", "rep",
    "use_cuda_graph", "do_bench", "cache_results",
})  # fmt: skip


def _benchmark(options: Mapping[str, Any]) -> Callable[..., Any] | None:
    """`do_bench` for the milliseconds that `warmup` and `rep` state; None where neither does."""
    stated = {n: options[n] for n in ("warmup", "rep") if options.get(n) is not None}
    return partial(do_bench, **stated) if stated else None


def _with(keywords: Mapping[str, Any], config: Config) -> dict[str, Any]:
    return {**keywords, **config.all_kwargs()}


def _prepare(config: Config, values: Mapping[str, Any]) -> None:
    """The change of the arguments before each launch that the configuration requests."""
    if config.pre_hook is not None:
        config.pre_hook({**values, **config.all_kwargs()})


def _fill(array: Any, value: Any = 0) -> None:
    """Write zeros, or another array's elements, to an array of any library."""
    if isinstance(array, TensorDescriptor):
        _fill(array.base, value.base if isinstance(value, TensorDescriptor) else value)
    elif hasattr(array, "zero_") and hasattr(array, "copy_"):
        array.zero_() if isinstance(value, int) else array.copy_(value)
    else:
        array[...] = value


def _try_launch(runner: Any, launch: Any) -> Any:
    """The result of the launch, or its error."""
    candidate = launch.candidate
    try:
        runner.launch(
            candidate.module, candidate.kernel, candidate.grid, launch.values, **candidate.options
        )
    except TileirError as error:
        return error
    return launch


def _time_launch(runner: Any, launch: Any) -> float | TileirError:
    """Seconds of the second of two launches, by the clock of the host."""
    candidate = launch.candidate

    def once() -> float:
        start = time.perf_counter()
        runner.launch(
            candidate.module, candidate.kernel, candidate.grid, launch.values, **candidate.options
        )
        return time.perf_counter() - start

    try:
        once()
        return once()
    except TileirError as error:
        return error


def _check_kernel(kernel: Any, decorator: str) -> None:
    """Raises LaunchError if `kernel` is no kernel."""
    if not isinstance(getattr(kernel, "source", None), FunctionSource):
        raise launch_error(
            f"{decorator} needs a kernel, not {describe(kernel)}: jit must be below it"
        )


def _copy(value: Any) -> Any:
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        return getattr(type(items), "_make", tuple)(map(_copy, items))
    if isinstance(value, TensorDescriptor):
        return attrs.evolve(value, base=_copy(value.base))
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.clone() if hasattr(value, "clone") else value


def autotune(configs: Sequence[Config], key: Sequence[str], **options: Any) -> Any:
    """Launch the fastest of `configs`, found once for every value of the arguments named in
    `key`."""
    return lambda kernel: Autotuner(kernel, configs, key, **options)


class Heuristics(KernelInterface):
    """A kernel some of whose parameters are computed from the other arguments."""

    def __init__(self, kernel: Any, values: Mapping[str, Callable[..., Any]]) -> None:
        _check_kernel(kernel, "heuristics")
        self.kernel = self.fn = kernel
        self.values = values
        self.source, self.__name__ = kernel.source, kernel.__name__

    def run(self, *arguments: Any, grid: Any, **keywords: Any) -> Any:
        """Launch with the computed parameters; `warmup` only compiles."""
        computed = self._compute_parameters(arguments, keywords)
        if "warmup" in computed:
            return self.kernel.run(*arguments, grid=grid, **computed)
        return self.kernel[grid](*arguments, **computed)

    def prepare(self, *arguments: Any, grid: Any, **keywords: Any) -> Any:
        """The launch that `run` would perform."""
        return self.kernel.prepare(
            *arguments, grid=grid, **self._compute_parameters(arguments, keywords)
        )

    def _compute_parameters(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> dict[str, Any]:
        values = dict(zip(self.kernel.source.signature.parameters, arguments, strict=False))
        values.update(keywords)
        computed = dict(keywords)
        for name, compute in self.values.items():
            values[name] = computed[name] = compute(values)
        return computed


def heuristics(values: Mapping[str, Callable[..., Any]]) -> Any:
    """Compute parameters from the other arguments: `@heuristics({"EVEN": lambda a: ...})`."""
    return lambda kernel: Heuristics(kernel, values)
