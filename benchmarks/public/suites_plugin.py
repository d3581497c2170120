"""A plugin of pytest for `suites.py`: the order of the cases, which process runs which, and a line
of JSON for each outcome.

Reads SUITES_LOG, the file that the process appends its outcomes to; SUITES_CLAIMS, a folder that
all processes of a suite share, with a file for each case that one of them has taken; SUITES_ONLY, a
file with the cases to run; SUITES_LIMIT, the seconds of a case; SUITES_END, the time in seconds
since 1970 at which no other case begins; SUITES_DEVICE, `cuda`, or `compile` for a GPU that is not
there, or `cpu` for Triton's backend `cpu`; SUITES_STUB, a package whose modules are imported
without what the package does as it is imported; SUITES_FILL, 1 to fill tensors whose memory would
be left unset.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import signal
import sys
import time
import zlib
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

_LOG, _CLAIMS = Path(os.environ["SUITES_LOG"]), Path(os.environ["SUITES_CLAIMS"])
_LIMIT, _END = int(os.environ["SUITES_LIMIT"]), float(os.environ["SUITES_END"])
_DEVICE, _STUB = os.environ.get("SUITES_DEVICE", "cuda"), os.environ.get("SUITES_STUB", "")
_ONLY = os.environ.get("SUITES_ONLY", "")
_BEGAN = time.time()
_kernels: list[list[Any]] = []
_launched: set[str] = set()
_stack = ExitStack()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Prepare the environment of the tests before any of their files is imported."""
    from collect import few_configurations

    gc.disable()  # nothing that is collected ends before the cases run
    with suppress(ImportError):  # suites without Triton
        few_configurations(int(os.environ.get("PUBLIC_CONFIGS", "2")))
    if _DEVICE != "cuda":
        import fake_gpu

        enter = fake_gpu.fake_gpu if _DEVICE == "compile" else fake_gpu.cpu_as_gpu
        _stack.enter_context(enter())
    if _DEVICE == "compile":
        import torch  # type: ignore[import-not-found]

        torch.testing.assert_close = torch.allclose = lambda *_, **__: True
    if os.environ.get("SUITES_FILL") == "1":
        _fill_unset_memory()
    _note_kernels()
    _note_launches()
    for name in filter(None, (_STUB, _STUB and f"{_STUB}.kernels")):
        _import_without_running(name)


def _import_without_running(name: str) -> None:
    from importlib.util import find_spec, module_from_spec

    spec = find_spec(name)
    assert spec is not None, name
    module = sys.modules[name] = module_from_spec(spec)
    module.__dict__["DEVICE_TYPE"] = "cuda"


_FILLING = -1.5
"""The number in memory that would be unset. It is not one that memory often has."""


def _fill_unset_memory() -> None:
    """Fill each tensor of floating-point numbers that `torch.empty` and the like return."""
    import torch  # type: ignore[import-not-found]

    filling = False  # a library may have its own `fill_`, which allocates

    def fill_result(own: Any) -> Any:
        @functools.wraps(own)
        def make(*args: Any, **kwargs: Any) -> Any:
            nonlocal filling
            tensor = own(*args, **kwargs)
            if tensor.is_floating_point() and not filling:
                filling = True
                try:
                    tensor.data.fill_(_FILLING)
                finally:
                    filling = False
            return tensor

        return make

    for name in ("empty", "empty_like", "empty_strided"):
        setattr(torch, name, fill_result(getattr(torch, name)))
    for name in ("new_empty", "new_empty_strided"):
        setattr(torch.Tensor, name, fill_result(getattr(torch.Tensor, name)))


def _note_kernels() -> None:
    """Record each kernel that tileir is requested to compile from now on: its name and warps, a
    digest of its text, and `tileir`, or the reason why tileir does not compile it."""
    if os.environ.get("TILEIR_IN_TRITON", "0") == "0":
        return
    from tileir.frontends.triton_backend import stages

    own = stages.compile_ttir

    def compile_ttir(settings: Any, text: str, metadata: Any, options: Any, *rest: Any) -> Any:
        row = [stages.kernel_name(text), options.num_warps, zlib.crc32(text.encode()), "tileir"]
        try:
            return own(settings, text, metadata, options, *rest)
        except Exception as error:
            row[-1] = f"{type(error).__name__}: {error}"[:400]
            raise
        finally:
            _kernels.append(row)

    stages.compile_ttir = compile_ttir


def _note_launches() -> None:
    """Record the names of the kernels that are launched from now on, whoever compiled them."""
    try:
        from triton.compiler.compiler import CompiledKernel  # type: ignore[import-not-found]
    except ImportError:
        return
    own = CompiledKernel.run

    def run(kernel: Any) -> Any:
        _launched.add(kernel.name)
        return own.fget(kernel)

    CompiledKernel.run = property(run)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Sort the cases in a fixed shuffled order: the first case of every function comes before the
    second case of any."""
    only = set(Path(_ONLY).read_text().splitlines()) if _ONLY else None
    items.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
    seen: Counter[str] = Counter()
    ranks: dict[str, tuple[int, int]] = {}
    for place, item in enumerate(items):
        function = item.nodeid.partition("[")[0]
        ranks[item.nodeid] = seen[function], place
        seen[function] += 1
    items[:] = [item for item in items if only is None or item.nodeid in only]
    items.sort(key=lambda item: ranks[item.nodeid])


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: Any) -> bool:
    """Run the cases that no other process has taken, each with its own fixtures."""
    _write({
        "collected": Counter(item.nodeid.partition("::")[0] for item in session.items),
        "failures": session.testsfailed,
        "seconds": round(time.time() - _BEGAN, 1), "processor": round(time.process_time(), 1),
    })  # fmt: skip
    gc.freeze()
    gc.enable()
    if not session.config.option.collectonly:
        for item in session.items:
            if time.time() > _END:
                break
            if _is_first(item.nodeid):
                _run(item)
    return True


def _is_first(case: str) -> bool:
    """Whether this process is the first to take the case."""
    path = _CLAIMS / f"{zlib.crc32(case.encode()):08x}{zlib.adler32(case.encode()):08x}"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _run(item: Any) -> None:
    _write({"case": item.nodeid, "outcome": "began"})
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(_LIMIT)
    try:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    except TimeoutError as error:  # outside of what pytest catches
        _write({"case": item.nodeid, "outcome": "failed", "error": str(error)})
    finally:
        signal.alarm(0)
    _free_memory()


_KEPT = 4 << 30
"""Bytes of a GPU that a process keeps between cases; other processes share the GPU."""


def _free_memory() -> None:
    torch = sys.modules.get("torch")
    if _DEVICE == "cuda" and torch is not None and torch.cuda.is_initialized():
        with suppress(RuntimeError):
            if torch.cuda.memory_reserved() > _KEPT:
                torch.cuda.empty_cache()


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write({"file": report.nodeid, "error": str(report.longrepr)[-600:]})


def pytest_runtest_logreport(report: Any) -> None:
    """Log the outcome of a case: of its call, or of what was skipped or failed around it. A process
    whose GPU reports an error for every later call ends."""
    if report.when != "call" and report.outcome == "passed":
        return
    line = {"case": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2)}
    if _kernels:
        line["kernels"] = list(_kernels)
        _kernels.clear()
    if _launched:
        line["launched"] = sorted(_launched)
        _launched.clear()
    if report.outcome == "failed":
        line["error"] = _error(report)
    _write(line)
    if report.outcome == "failed" and _DEVICE == "cuda" and _is_gpu_lost():
        os._exit(3)


def _is_gpu_lost() -> bool:
    import torch  # type: ignore[import-not-found]

    with suppress(ImportError, AttributeError):
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return True
    return False


def _error(report: Any) -> str:
    """The lines of the error itself, without the source around it."""
    text = str(report.longrepr)
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E  ")]
    return "\n".join(lines[:40] or text.splitlines()[-3:])[:1500]


def _write(line: dict[str, Any]) -> None:
    with _LOG.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _stop(number: int, frame: Any) -> None:
    raise TimeoutError(f"the case took more than {_LIMIT} seconds")
