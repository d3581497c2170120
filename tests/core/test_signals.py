"""What a handler of a signal raises while a program is compiled is the user's, whatever is
interrupted."""

import functools
import signal
from pathlib import Path

import pytest

from tileir.backend import compile, worker_pool  # noqa: A004
from tileir.backend.codegen import lowering
from tileir.errors import DefectError
from tileir.passmanager import CrashError, Pass, find_passes, run
from tileir.textual import parse

RELU = (Path(__file__).parents[2] / "examples/relu.tir").read_text()

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")


class StopError(Exception):
    """The user's."""


class Handlers:
    """Handlers of several kinds, that raise an error of this kind."""

    def __init__(self, kind):
        self.kind = kind

    def method(self, number, frame):
        raise self.kind

    def __call__(self, number, frame):
        self.method(number, frame)


def raises(kind, number, frame):
    raise kind


HANDLERS = {
    "function": lambda kind: lambda number, frame: raises(kind, number, frame),
    "method": lambda kind: Handlers(kind).method,
    "object": Handlers,
    "partial": lambda kind: functools.partial(raises, kind),
}


@pytest.fixture(params=[StopError, TimeoutError, ValueError])
def kind(request):
    return request.param


@pytest.fixture(params=HANDLERS)
def installed_handler(request, kind):
    """A handler that raises errors of a kind."""
    before = signal.signal(signal.SIGUSR1, HANDLERS[request.param](kind))
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupt(*_, **__):
    """Receive the signal."""
    signal.raise_signal(signal.SIGUSR1)


def test_a_pass_is_interrupted(installed_handler, kind, monkeypatch):
    monkeypatch.setitem(find_passes._PASSES, "long", Pass("long", interrupt, "function", ()))
    with pytest.raises(kind) as caught:
        run(parse(RELU), "cse,long")
    assert caught.type is kind


def test_code_generation_is_interrupted(installed_handler, kind, monkeypatch):
    monkeypatch.setattr(lowering.Lowering, "__init__", interrupt)
    with pytest.raises(kind) as caught:
        compile(parse(RELU))
    assert caught.type is kind


def test_waiting_for_another_process_is_interrupted(installed_handler, kind, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(worker_pool, "receive", interrupt)
        with pytest.raises(kind) as caught:
            compile(parse(RELU), isolate=True).ptx  # noqa: B018
        assert caught.type is kind
    assert "relu" in compile(parse(RELU), isolate=True).ptx


def test_what_is_raised_without_a_signal_is_a_defect(installed_handler, kind, monkeypatch):
    def fail(*_, **__):
        raise kind

    monkeypatch.setitem(find_passes._PASSES, "wrong", Pass("wrong", fail, "function", ()))
    with pytest.raises(CrashError):
        run(parse(RELU), "cse,wrong")
    monkeypatch.setattr(lowering.Lowering, "__init__", fail)
    with pytest.raises(DefectError):
        compile(parse(RELU))
