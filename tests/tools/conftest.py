"""What tests of commands share."""

import pytest

from tileir.effects import Effects
from tileir.ir import Function
from tileir.passmanager import Pass, find_passes
from tileir.tools.opt import main


@pytest.fixture
def opt(capsys, tmp_path):
    """Runs `tileir-opt` on a text: exit status, standard output, standard error."""

    def command(text, *arguments):
        path = tmp_path / "input.tir"
        path.write_text(text)
        status = main([str(path), *arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return command


@pytest.fixture
def crashing(monkeypatch):
    """A pass `crash` that fails on functions with a `mul`."""

    def crash(function, *, level=1):
        if any(op.mnemonic == "mul" for op in function.ops):
            raise KeyError(f"level {level}")
        return function

    option = find_passes.Option("level", int, 1)
    monkeypatch.setitem(find_passes._PASSES, "crash", Pass("crash", crash, "function", (option,)))


@pytest.fixture
def breaking(monkeypatch):
    """A pass `break` that leaves out what defines a value."""

    def remove_pure_ops(function: Function):
        block = function.entry
        ops = [op for op in block.ops if op.effects is not Effects.PURE]
        blocks = {block.label: type(block)(block.label, (), tuple(ops))}
        return function.evolve(blocks=blocks)

    monkeypatch.setitem(
        find_passes._PASSES, "break", Pass("break", remove_pure_ops, "function", ())
    )
