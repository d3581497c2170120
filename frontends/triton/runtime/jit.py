"""`@jit`: a Python function as a kernel, compiled on its first launch for each kind of argument."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any, cast

import attrs
import numpy as np

from tileir import Module
from tileir.errors import InfeasibleError
from tileir.executor import (
    Dispatch,
    Dispatching,
    Done,
    KernelCall,
    Parts,
    executor,
    executors,
    on_host,
)
from tileir.frontends.triton.arguments import (
    annotated_argument,
    annotated_value,
    argument,
    drop_alignment,
    host_array,
    on_gpu,
)
from tileir.frontends.triton.errors import OutOfResources, launch_error
from tileir.frontends.triton.interface import KernelInterface
from tileir.frontends.triton.kernel import Specialization, from_signature, module_of
from tileir.frontends.triton.language.control import unwrap
from tileir.frontends.triton.parameters import Argument, Known, RuntimeParameter, leaves, parts
from tileir.frontends.triton.reinterpreting import TensorWrapper, reinterpret
from tileir.frontends.triton.runtime.warm import WarmKernel
from tileir.frontends.triton.source import FunctionSource
from tileir.grids import extents_of
from tileir.limits import current
from tileir.measuring import Candidate

__all__ = ["OPTIONS", "JITFunction", "KernelInterface", "PreparedLaunch", "TensorWrapper", "jit",
    "reinterpret"]  # fmt: skip

_KEPT = (
    "num_warps", "num_stages", "enable_fp_fusion", "debug", "sanitize_overflow",
    "default_dot_input_precision",
)  # fmt: skip
"""Options of a launch that determine the module of a kernel; `maxnreg` is an option of the backend
for GPUs."""

OPTIONS = {
    *_KEPT, "maxnreg", "num_ctas", "warp_size", "ptx_version", "ptx_options", "ir_override",
    "enable_reflect_ftz", "launch_cooperative_grid", "launch_pdl", "supported_fp8_dtypes",
    "deprecated_fp8_dot_operand_dtypes", "allowed_dot_input_precisions",
    "max_num_imprecise_acc_default", "extern_libs", "backend_name", "arch",
    "instrumentation_mode", "num_buffers_warp_spec", "num_consumer_groups", "reg_dec_producer",
    "reg_inc_consumer", "memory",
}  # fmt: skip
"""Keywords of a launch that are no parameters: they steer Triton's compiler for CUDA. `memory` are
arrays that addresses in memory point into, which the CPU checks accesses against."""


@attrs.frozen
class PreparedLaunch:
    """A launch that is ready: the executor's name, the kernel, its arguments by name."""

    where: str
    candidate: Candidate
    values: Mapping[str, Any]


class JITFunction(KernelInterface):
    """A kernel, launched by `kernel[grid](*arguments)`, or a function that kernels call.

    The kernel is specialized: integers equal to 1 become constants; multiples of 16 and addresses
    aligned to 16 bytes are recorded as such. `do_not_specialize` names parameters that are not
    specialized, `do_not_specialize_on_alignment` those without the alignment.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        do_not_specialize: Sequence[Any] = (),
        do_not_specialize_on_alignment: Sequence[Any] = (),
        *,
        debug: bool = False,
    ) -> None:
        if not isinstance(function, FunctionType):
            kind = type(function).__name__
            raise launch_error(
                f"jit needs a function, not a {kind}: it must be the innermost decorator"
            )
        self._debug = debug
        self._unaligned = frozenset(do_not_specialize_on_alignment)
        self.source = FunctionSource(function)
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.fn, self._plain = function, frozenset(do_not_specialize)
        self._modules: dict[Any, Module] = {}
        self._dispatch: Dispatch | None = None
        self._outside: tuple[Any, ...] = ()

    @property
    def arg_names(self) -> list[str]:
        """The names of the parameters."""
        return [node.arg for node in self.source.parameters]

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(f"launch it as {self.__name__}[grid](...), or call it from a kernel")

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launcher for `grid`: a number, a tuple, or a function of the arguments by name.

        On arrays of a GPU it returns the compiled kernel at once, like Triton's; `stream=` takes
        the handle of another stream than the one that the arrays' library works on."""
        if self.source.watched_globals:
            self._renew()
        return partial(self._call if self._dispatch is None else self._dispatch.call, grid)

    def _renew(self) -> None:
        """Drop the kernels that were compiled for other values of globals."""
        now = self.source.outside()
        if now != self._outside:
            self._modules.clear()
            self._dispatch, self._outside = None, now

    def _call(self, grid: Any, *arguments: Any, **keywords: Any) -> Any:
        """A call before one on a GPU."""
        gpu = executor("gpu") if _for_gpu(arguments, keywords) and "gpu" in executors() else None
        if not isinstance(gpu, Dispatching):
            return self.run(*arguments, grid=grid, **keywords)
        self._dispatch = gpu.dispatch(self._resolve, self.arg_names)
        with _resources():
            return self._dispatch.call(grid, *arguments, **keywords)

    def _resolve(
        self, grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> KernelCall | Done:
        """The launch of a call. A call that is not for the GPU is executed."""
        if not _for_gpu(arguments, keywords):
            return Done(self.run(*arguments, grid=grid, **keywords))
        passed = {k: v for k, v in keywords.items() if k not in _ABOUT}
        options, bound, special = self._bind_and_specialize(arguments, passed)
        if self._converts(arguments, passed, bound):
            return Done(self.run(*arguments, grid=grid, **keywords))
        wrapped = special.values(bound)
        values = {n: v.base if isinstance(v, TensorWrapper) else v for n, v in wrapped.items()}
        structured = {n: parts(n, p, bound[n]) for n, p in special.parameters.items()}
        return KernelCall(
            self._compile(special), self.__name__, values, {**bound, **options},
            _compiler_options(options), self._plain_leaves(special),
            {n: each for n, each in structured.items() if isinstance(each, Parts)},
            frozenset(n for n, v in wrapped.items() if isinstance(v, TensorWrapper)),
        )  # fmt: skip

    def _plain_leaves(self, special: Specialization) -> frozenset[str]:
        """The parameters of which only the type is known."""
        names = list(self.source.signature.parameters)
        by_name = {names[n] if isinstance(n, int) else n for n in self._plain}
        unaligned = {names[n] if isinstance(n, int) else n for n in self._unaligned}
        result: set[str] = set()
        for name, assumed in special.parameters.items():
            if name in by_name or (name in unaligned and isinstance(assumed, RuntimeParameter)):
                result.update(n for n, p in leaves(name, assumed) if p == RuntimeParameter(p.type))
        return frozenset(result)

    def module(
        self, signature: Mapping[str, Any], constants: Mapping[str, Any] = {}, **options: Any
    ) -> Module:
        """Return the module for a signature, without a launch.

        Example: `kernel.module({"x": "*fp32:16", "n": "i32"}, {"BLOCK": 128})`. Raises
        CompilationError.
        """
        return module_of(self.source, from_signature(self.source, signature, constants, **options))

    def run(
        self,
        *arguments: Any,
        grid: Any,
        warmup: bool = False,
        on: str | None = None,
        **keywords: Any,
    ) -> Any:
        """Launch every instance of `grid` and wait for the result.

        `on` names an executor. By default arrays on a GPU use that GPU. Arrays of the host use the
        CPU, or the interpreter if the CPU backend does not support the kernel. `warmup` only
        compiles. Raises CompilationError and LaunchError.
        """
        options, bound, special = self._bind_and_specialize(arguments, keywords)
        if warmup:
            return self._compile(special)
        launch = self._prepare(options, bound, special, grid, on)
        if 0 in launch.candidate.grid:
            return None
        with _resources():
            return _launch(launch)

    def prepare(
        self, *arguments: Any, grid: Any, on: str | None = None, **keywords: Any
    ) -> PreparedLaunch:
        """Return the launch that `run` would perform. Raises CompilationError and LaunchError."""
        return self._prepare(*self._bind_and_specialize(arguments, keywords), grid, on)

    def _prepare(
        self, options: Mapping[str, Any], bound: Mapping[str, Any], special: Specialization,
        grid: Any, on: str | None,
    ) -> PreparedLaunch:  # fmt: skip
        module = self._compile(special)
        where = on or _place(bound, module, self.__name__)
        extents = _extents(grid, {**bound, **options})
        values = {n: host_array(v) for n, v in special.values(bound).items()}
        extra = _compiler_options(options) if where == "gpu" else {}
        if where == "cpu" and "memory" in options:
            extra["memory"] = [host_array(array) for array in options["memory"]]
        return PreparedLaunch(where, Candidate(module, self.__name__, extents, extra), values)

    def _bind_and_specialize(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], Specialization]:
        """The options, the arguments by name, and their specialization."""
        self._renew()
        options = {k: v for k, v in keywords.items() if k in OPTIONS and v is not None}
        if options.get("debug", self._debug) or _debugging():
            options["debug"] = True
        own = self.source.signature.parameters
        passed = {k: v for k, v in keywords.items() if k in own or k not in OPTIONS}
        bound = self._bound(arguments, passed)
        return options, bound, self._specialize(bound, options)

    def _bound(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.source.signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise launch_error(f"{self.__name__}: {error}") from None
        bound.apply_defaults()
        result = dict(bound.arguments)
        for name in self.source.constant_parameters:
            result[name] = unwrap(result[name])
        for name, kind in self.source.annotated_types.items():
            result[name] = annotated_value(name, unwrap(result[name]), kind)
        return result

    def _specialize(self, bound: Mapping[str, Any], options: Mapping[str, Any]) -> Specialization:
        parameters: dict[str, Argument] = {}
        constants: dict[str, Any] = {}
        for index, (name, value) in enumerate(bound.items()):
            if name in self.source.constant_parameters:
                constants[name] = value.item() if isinstance(value, np.generic) else value
                continue
            plain = name in self._plain or index in self._plain
            result = self._argument(name, value, plain)
            if name in self._unaligned or index in self._unaligned:
                result = drop_alignment(result)
            if isinstance(result, Known):
                constants[name] = result.value
            else:
                parameters[name] = result
        return Specialization(parameters, constants, {k: options[k] for k in _KEPT if k in options})

    def _converts(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], bound: Mapping[str, Any]
    ) -> bool:
        """Whether annotations convert arguments to other objects, which a launcher in machine code
        cannot do."""
        passed: dict[str, Any] = {**dict(zip(self.arg_names, arguments, strict=False)), **keywords}
        return any(
            name in passed and type(passed[name]) is not type(value)
            for name, value in bound.items()
            if name not in self.source.constant_parameters
        )

    def _argument(self, name: str, value: Any, plain: bool) -> Argument:
        kind = self.source.annotated_types.get(name)
        if kind is None or isinstance(value, tuple):
            return argument(name, value, plain)
        return annotated_argument(name, value, kind, plain)

    def _compile(self, special: Specialization) -> Module:
        key = (
            tuple(special.parameters.items()),
            tuple((n, type(v), _hashable(v)) for n, v in special.constants.items()),
            tuple(special.options.items()),
            current().evaluations,
        )
        try:
            module = self._modules.get(key)
        except TypeError:  # a constant that cannot be hashed is compiled for every launch
            return self._warm(special)
        if module is None:
            module = self._modules[key] = self._warm(special)
        return module

    def _warm(self, special: Specialization) -> WarmKernel:
        constants = {**special.constants, **special.options}
        return WarmKernel.of(module_of(self.source, special), self._launch_warm, constants)

    def _launch_warm(
        self, arguments: Sequence[Any], keywords: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> Any:
        """Launch the result of `warmup`; arguments that it has as constants may be left out."""
        passed = {*self.arg_names[: len(arguments)], *keywords}
        return self.run(
            *arguments, **keywords, **{k: v for k, v in constants.items() if k not in passed}
        )


@contextmanager
def _resources() -> Generator[None, None, None]:
    """Convert errors of exceeded resources to Triton's errors."""
    try:
        yield
    except OutOfResources:
        raise
    except InfeasibleError as error:
        raise OutOfResources.of(error) from error


def _launch(launch: PreparedLaunch) -> Any:
    """Launch by the executor and return its result. Lines that a kernel prints are written to
    standard output for every executor."""
    candidate, lines = launch.candidate, list[str]()
    own = {"output": lines} if launch.where == "simt" else {}
    result = executor(launch.where).launch(
        candidate.module, candidate.kernel, candidate.grid, launch.values,
        **candidate.options, **own,
    )  # fmt: skip
    lines += getattr(result, "printed", ())
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return result


def _compiler_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a launch that are options of the GPU's compiler. A thread has at most 255
    registers, for which ptxas takes a larger `maxnreg`."""
    most = options.get("maxnreg")
    return {} if most is None else {"max_registers": min(most, 255)}


_ABOUT = frozenset({"on", "warmup", "grid"})
"""Keywords of `run` that are neither parameters nor options of the compiler."""


def _for_gpu(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    """Whether a call is on arrays of a GPU, without a request for another executor."""
    if keywords.get("warmup") or keywords.get("on") not in (None, "gpu"):
        return False
    return any(map(on_gpu, (*arguments, *keywords.values())))


def _hashable(value: Any) -> Any:
    """A constant as a key. Two keys are equal only if the types and bits of all numbers, including
    items, are equal."""
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        return tuple((type(x), _hashable(x)) for x in items)
    return value.hex() if isinstance(value, float) else value


def _place(bound: Mapping[str, Any], module: Module, kernel: str) -> str:
    """The executor for these arguments."""
    is_on_gpu = any(map(on_gpu, bound.values()))
    return "gpu" if is_on_gpu and "gpu" in executors() else on_host(module, kernel)


def _extents(grid: Any, arguments: Mapping[str, Any]) -> tuple[int, ...]:
    try:
        return extents_of(grid(arguments) if callable(grid) else grid)
    except ValueError as error:
        raise launch_error(str(error)) from None


def _debugging() -> bool:
    """Whether `TRITON_DEBUG` enables device assertions in all kernels."""
    return os.environ.get("TRITON_DEBUG", "0").lower() in ("1", "true", "on", "yes", "y")


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a function: `@jit`, or `@jit(do_not_specialize=["n"], debug=True)`.

    Raises LaunchError for unknown options.
    """
    unknown = options.keys() - {*_UNSPECIALIZED, *_OF_JIT}
    if unknown:
        raise launch_error(f"jit has no option {', '.join(sorted(unknown))}")
    chosen = [options.get(name) or () for name in _UNSPECIALIZED]
    debug = bool(options.get("debug"))
    if function is None:
        return lambda f: JITFunction(f, *chosen, debug=debug)  # type: ignore[arg-type]
    return JITFunction(function, *chosen, debug=debug)


_UNSPECIALIZED = ("do_not_specialize", "do_not_specialize_on_alignment")
"""Options of `jit` that name arguments without specialization."""

_OF_JIT = ("debug", "noinline", "repr", "launch_metadata", "version")
"""The other options of `jit`; only `debug` has an effect."""
