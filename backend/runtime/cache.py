"""The cache of compiled kernels, in this process and on disk.

    cache = Cache.usual()
    compiled = cache.compile(module, "sm_90a", {"num_warps": 8})
    future = cache.submit(module, "sm_90a")          a thread, or any executor's process

The key of an entry is computed from everything that machine code depends on: the module's text, the
target, the options, and the versions of the compiler, LLVM and the assembler.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache as remembered
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import attrs

from tileir.backend.compile import compile as compile_module, run_pipeline
from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.options import Options
from tileir.backend.runtime.disk_store import DiskStore, cache_folder
from tileir.backend.runtime.format import FORMAT, Texts, dumps, loads
from tileir.backend.runtime.version import compiler_version
from tileir.backend.target import target as target_named
from tileir.errors import CompileError
from tileir.ir import Module
from tileir.limits import overrides
from tileir.textual import parse, print_module

_BYTES = 4 << 30
"""The size of the cache on disk in bytes, unless TILEIR_CACHE_BYTES states it."""

_KEPT = ("input",)
"""Stages whose text is stored: others follow from it."""


@attrs.define(eq=False)
class Cache:
    """A cache of compiled kernels in a `store`, or in this process only if `store` is None.

    Several threads and processes may use the cache, even if a process is killed: each kernel is
    compiled once. If the folder is not writable, each process compiles separately.
    """

    store: DiskStore | None
    make: Callable[..., CompiledKernel] = compile_module
    isolate: bool | None = None
    """Whether kernels are compiled in a separate process unless a call states it
    (`tileir.backend.isolation`); None is the default."""
    _by_key: WeakValueDictionary[str, CompiledKernel] = attrs.field(factory=WeakValueDictionary)
    _by_module: WeakKeyDictionary[Module, dict[Any, str]] = attrs.field(factory=WeakKeyDictionary)
    _busy: dict[str, Any] = attrs.field(factory=dict)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @staticmethod
    def usual() -> Cache:
        """Return the cache in the user's cache folder.

        The environment variable TILEIR_CACHE names another folder; `off` disables the cache on
        disk.
        """
        return _at(None if os.environ.get("TILEIR_CACHE") == "off" else cache_folder())

    def compile(
        self, module: Module, target: str, options: Options | Mapping[str, Any] | None = None,
        kernel: str | None = None, *, isolate: bool | None = None,
    ) -> CompiledKernel:  # fmt: skip
        """Compile as `tileir.backend.compile` does, with machine code. Raises the same errors."""
        isolate = self.isolate if isolate is None else isolate
        chosen = _under_limits(options)
        key = self.key(module, target, chosen, kernel)
        future = self._by_key.get(key)
        if future is not None:
            return future
        with self._alone(key):
            future = self._by_key.get(key) or self._load(key)
            if future is None:
                future = self._compile_locked(key, module, target, chosen, kernel, isolate)
            self._by_key[key] = future
        return future

    def key(self, module: Module, target: str, options: Options, kernel: str | None) -> str:
        """Return the key of the entry, 64 hexadecimal digits."""
        inputs = (target, options, kernel)
        keys = self._by_module.get(module)
        if keys is None:
            keys = self._by_module.setdefault(module, {})
        if inputs not in keys:
            keys[inputs] = _key(module, target, options, kernel)
        return keys[inputs]

    def submit(
        self, module: Module, target: str, options: Options | Mapping[str, Any] | None = None,
        kernel: str | None = None, *, executor: Executor | None = None,
    ) -> Future[CompiledKernel]:  # fmt: skip
        """Compile in the background: in a thread, or in a task of `executor`. Returns a future.

        Processes of an executor use the folder of this cache, or no cache on disk.
        """
        chosen = _under_limits(options)
        if executor is None:
            return _threads().submit(self.compile, module, target, chosen, kernel)
        folder = None if self.store is None else str(self.store.folder)
        task = executor.submit(
            _elsewhere, print_module(module), target, chosen.to_json(), kernel, folder
        )
        return _read_result(task, lambda data: self._keep(module, target, chosen, kernel, data))

    def _keep(
        self, module: Module, target: str, options: Options, kernel: str | None, data: bytes
    ) -> CompiledKernel:
        key = self.key(module, target, options, kernel)
        return self._by_key.setdefault(key, _restageable(loads(data)))

    def _alone(self, key: str) -> _KeyLock:
        return _KeyLock(self._busy, self._lock, key)

    def _load(self, key: str) -> CompiledKernel | None:
        data = None if self.store is None else self.store.get(key)
        if data is None:
            return None
        try:
            return _restageable(loads(data))
        except CompileError:
            return None

    def _compile_locked(
        self, key: str, module: Module, target: str, options: Options, kernel: str | None,
        isolate: bool | None,
    ) -> CompiledKernel:  # fmt: skip
        with ExitStack() as stack:
            if self.store is not None:
                with suppress(CompileError):  # the folder is not writable
                    stack.enter_context(self.store.lock(key))
            compiled = self._load(key)
            if compiled is None:
                more = {} if isolate is None else {"isolate": isolate}
                compiled = self.make(module, target, options, kernel, **more)
                self._write(key, compiled)
            return compiled

    def _write(self, key: str, compiled: CompiledKernel) -> None:
        """Assemble and store. Without an assembler nothing is stored, and the driver assembles the
        PTX."""
        try:
            compiled.cubin  # noqa: B018 - generated here, where other threads wait for it
        except CompileError as error:
            if error.code == "TIR0704":
                return
            raise
        if self.store is None:
            return
        with suppress(CompileError):  # the folder is not writable
            self.store.put(key, dumps(compiled, _KEPT))
        if key.startswith("00"):  # from time to time
            self.store.trim(int(os.environ.get("TILEIR_CACHE_BYTES", _BYTES)))


@attrs.define(eq=False)
class _KeyLock:
    """A lock per key for the threads of this process."""

    busy: dict[str, list[Any]]
    lock: threading.Lock
    key: str

    def __enter__(self) -> None:
        with self.lock:
            entry = self.busy.setdefault(self.key, [threading.Lock(), 0])
            entry[1] += 1
        entry[0].acquire()

    def __exit__(self, *_: object) -> None:
        with self.lock:
            entry = self.busy[self.key]
            entry[0].release()
            entry[1] -= 1
            if not entry[1]:
                del self.busy[self.key]


def _under_limits(options: Options | Mapping[str, Any] | None) -> Options:
    """The options with the current limits. These decide whether a kernel compiles, so they are a
    part of the key, and apply in the thread or process that compiles."""
    chosen, in_force = Options.of(options), overrides()
    if not in_force:
        return chosen
    return attrs.evolve(chosen, limits={**in_force, **dict(chosen.limits)})


def _key(module: Module, target: str, options: Options, kernel: str | None) -> str:
    places = [
        str(op.location) for f in module.functions.values() for op in f.ops if options.line_info
    ]
    inputs = json.dumps([FORMAT, compiler_version(), target, options.to_json(), kernel, places])
    return hashlib.sha256(f"{inputs}\n{print_module(module)}".encode()).hexdigest()


def _restageable(compiled: CompiledKernel) -> CompiledKernel:
    """`compiled`, whose stages that were not stored are regenerated on request."""

    def rerun() -> Mapping[str, Module]:
        machine = target_named(compiled.plan.target)
        return run_pipeline(
            compiled.stages["input"], machine, compiled.options, compiled.plan.kernel
        ).stages

    assert isinstance(compiled.stages, Texts)
    return attrs.evolve(compiled, stages=attrs.evolve(compiled.stages, rerun=rerun))


def _elsewhere(
    text: str, target: str, options: Mapping[str, Any], kernel: str | None, folder: str | None
) -> bytes:
    """The task of another process for `Cache.submit`."""
    cache = _at(None if folder is None else Path(folder))
    compiled = cache.compile(parse(text, verify=False), target, options, kernel)
    return dumps(compiled, _KEPT)


def _read_result(
    task: Future[bytes], read: Callable[[bytes], CompiledKernel]
) -> Future[CompiledKernel]:
    """The future of `read` applied to the bytes of a task."""
    future: Future[CompiledKernel] = Future()

    def done(task: Future[bytes]) -> None:
        try:
            future.set_result(read(task.result()))
        except BaseException as error:
            future.set_exception(error)

    task.add_done_callback(done)
    return future


@remembered
def _at(folder: Path | None) -> Cache:
    return Cache(None if folder is None else DiskStore(folder / "kernels"))


@remembered
def _threads() -> Executor:
    return ThreadPoolExecutor(os.cpu_count() or 1, "tileir-compile")


def _reset_after_fork() -> None:
    """Reset the locks in a child of `fork`: the threads that own them do not exist there."""
    _at.cache_clear()
    _threads.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
