"""Dispatch of calls of frontends' kernels on GPUs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.options import Options
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disjoint import separate as separate_module, separation
from tileir.backend.runtime.dispatch import BoundCall, Dispatcher, LaunchDevice
from tileir.executor import Done, KernelCall
from tileir.ir import Module


@attrs.define(eq=False)
class FrontendKernels:
    """The kernels that calls launch. Each is compiled once, through `cache` for `target`, and
    loaded once, by `load`."""

    machine: LaunchDevice
    target: str
    load: Callable[[CompiledKernel], Any]
    cache: Cache
    _kernels: WeakKeyDictionary[Module, dict[Any, Any]] = attrs.field(factory=WeakKeyDictionary)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def dispatch(
        self,
        resolve: Callable[[Any, tuple[Any, ...], dict[str, Any]], KernelCall | Done],
        positional: Sequence[str],
    ) -> Dispatcher:
        """A dispatcher of calls; see `tileir.executor.Dispatching`."""

        def bound(
            grid: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
        ) -> BoundCall | Done:
            resolved = resolve(grid, arguments, keywords)
            return resolved if isinstance(resolved, Done) else self._bound(resolved)

        return Dispatcher(self.machine, bound, positional)

    def _bound(self, call: KernelCall) -> BoundCall:
        options, values, names = Options.of(call.options), (*call.values.values(),), (*call.values,)
        compared = separation(call.module.functions[call.kernel])
        separate = None if compared is None else compared.decide(values)
        with self._lock:
            kernels, module = self._kernels.setdefault(call.module, {}), call.module
            if separate and compared is not None:
                module = kernels.get(call.kernel) or separate_module(
                    module, call.kernel, compared.written
                )
                kernels[call.kernel] = module
        compiled = self.cache.compile(module, self.target, options, call.kernel)
        with self._lock:
            key = (call.kernel, options, bool(separate))
            if key not in kernels:
                kernels[key] = self.load(compiled)
            kernel = kernels[key]
        return BoundCall(
            kernel, compiled.plan, values, names, call.meta, True, call.plain, compiled, call.parts,
            call.reinterpreted, None if separate is None else compared, bool(separate),
        )  # fmt: skip
