"""Each limit, through every channel that compiles or runs a program: the same error at the same
place, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from tests.frontends.triton_backend.fakes import Tensor
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.cpu.compile import compile as compile_for_cpu
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disk_store import DiskStore
from tileir.errors import TileirError
from tileir.executor import executor
from tileir.frontends.triton_backend.cpu.programs import CpuProgram
from tileir.limits import ABOUT, limits
from tileir.textual import parse
from tileir.tools.main import main
from tileir.tools.opt import main as opt


@attrs.frozen
class Excess:
    """A program of which `<-` marks the line that asks for more than `value` of a limit. `checked`:
    what checks it, of `gpu`, `cpu` and `interpreter`."""

    value: int
    code: str
    checked: tuple[str, ...]
    body: str
    before: str = ""

    @property
    def text(self) -> str:
        parameters = "f32* %x, i32 %n"
        if self.code == "TIR0708" and not self.before and "<-" not in self.body:
            parameters = "f32* %x,\n  i32 %n  ; <-\n"
        lines = "".join(f"{'' if ':' in x else '  '}{x}\n" for x in self.body.split("\n"))
        head = f"define kernel void @k({parameters})"
        return f"tir 1.0\n{self.before}\n{head} {{\nentry:\n{lines}  ret\n}}\n"

    @property
    def line(self) -> int:
        (line,) = [i for i, x in enumerate(self.text.splitlines(), 1) if "<-" in x]
        return line


ALL, BACKENDS, GPU = ("gpu", "cpu", "interpreter"), ("gpu", "cpu"), ("gpu",)
GLOBAL = "%p = global_address f32* @g\n%v = load f32 %p\nstore %x, %v"
NEST = """br outer
outer:
%i = phi i32 [0, entry], [%i1, latch]
br inner
inner:  ; <-
%j = phi i32 [0, outer], [%j1, inner]
%f = sitofp f32 %j
store %x, %f
%j1 = add i32 %j, 1
%m, _ = icmp (i1, i1) %j1, %n {predicate = slt}
cond_br %m, inner, latch
latch:
%i1 = add i32 %i, 1
%o, _ = icmp (i1, i1) %i1, %n {predicate = slt}
cond_br %o, outer, done
done:"""
EXCESSES = {
    "tile_elements": Excess(255, "TIR1601", ALL, "%r = make_range i32<256> ; <-"),
    "operations": Excess(
        3, "TIR1601", BACKENDS,
        "%a = add i32 %n, 1\n%b = add i32 %a, 1\n%f = sitofp f32 %b\nstore %x, %f ; <-",
    ),
    "loop_depth": Excess(1, "TIR1601", BACKENDS, NEST),
    "register_percent": Excess(
        1, "TIR0708", GPU,
        "%r = make_range i32<65536>\n%xs = splat f32*<65536> %x\n"
        "%p = getelementptr f32*<65536> %xs, %r\n%v = load f32<65536> %p\n"
        "%w = exp f32<65536> %v ; <-\nstore %p, %w",
    ),
    "parameter_bytes": Excess(8, "TIR0708", GPU, "%f = sitofp f32 %n\nstore %x, %f"),
    "constant_bytes": Excess(
        8, "TIR0708", GPU, GLOBAL.replace("f32*", "f32 addrspace(4)*"),
        "constant f32<4> @g = 1.0 ; <-",
    ),
    "global_bytes": Excess(8, "TIR1601", ALL, GLOBAL, "global f32<4> @g = 0.0 ; <-"),
    "initial_elements": Excess(2, "TIR1601", BACKENDS, GLOBAL, "global f32<4> @g = 1.0 ; <-"),
    "alignment": Excess(16, "TIR1601", BACKENDS, GLOBAL, "align 32 global f32<4> @g = 0.0 ; <-"),
}  # fmt: skip
"""One for each limit but those of the frontend of Triton's Python and of isolated processes, which
`test_isolation` and the tests of that frontend check."""


def test_every_limit_has_a_program() -> None:
    assert {*EXCESSES, "evaluations", "seconds"} == set(ABOUT)


@contextmanager
def refused(excess: Excess) -> Iterator[None]:
    """The body raises the error of the limit, at its line."""
    with pytest.raises(TileirError) as caught:
        yield
    assert (caught.value.code, caught.value.line) == (excess.code, excess.line), str(caught.value)


def module_of(excess: Excess) -> Any:
    return parse(excess.text, "k.tir")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", EXCESSES)
def test_compilation_and_caches(name: str, tmp_path: Path) -> None:
    """By an option, and in a block: also where a kernel was compiled under other limits before,
    and where a thread compiles."""
    excess = EXCESSES[name]
    module, option = module_of(excess), {"limits": {name: excess.value}}
    for cache in (Cache(None), Cache(DiskStore(tmp_path / name))):
        kernel = cache.compile(module, "sm_90a")
        submitted = cache.submit(module, "sm_90a")
        with refused(excess):
            cache.compile(module, "sm_90a", option)
        with refused(excess):
            cache.submit(module, "sm_90a", option).result()
        with limits(**{name: excess.value}):
            with refused(excess):
                cache.compile(module, "sm_90a")
            with refused(excess):
                cache.submit(module, "sm_90a").result()
        assert cache.compile(module, "sm_90a") is kernel and submitted.result() is kernel
    with limits(**{name: excess.value}), refused(excess):
        compile_kernel(module, "sm_90a")
    with refused(excess):
        compile_kernel(module, "sm_90a", option)


def launch(excess: Excess, where: str) -> None:
    executor(where).launch(module_of(excess), "k", 1, [np.zeros(1 << 16, np.float32), 2])


def hook(mode: str) -> Callable[[Excess], None]:
    def start(excess: Excess) -> None:
        program = CpuProgram("k", excess.text)
        if mode != "native":
            x = np.zeros(1 << 16, np.float32)
            program.launch((1, 1, 1), [Tensor(x), 2])
        else:
            assert program.launch

    return start


CHANNELS: dict[str, tuple[str, Callable[[Excess], None]]] = {
    "cpu.compile": ("cpu", lambda e: assert_compiled(e)),
    "executor cpu": ("cpu", lambda e: launch(e, "cpu")),
    "executor simt": ("gpu", lambda e: launch(e, "simt")),
    "executor interpreter": ("interpreter", lambda e: launch(e, "interpreter")),
    "hook native": ("cpu", hook("native")),
    "hook interpreter": ("interpreter", hook("interpreter")),
    "hook simt": ("gpu", hook("simt")),
}


def assert_compiled(excess: Excess) -> None:
    assert compile_for_cpu(module_of(excess)).llvm


@for_each(("channel", "name"), [(c, n) for c in CHANNELS for n in EXCESSES])
def test_executors_and_the_hook_of_triton(channel: str, name: str, monkeypatch: Any) -> None:
    """Those that do not check a limit run the program."""
    excess, (checks, act) = EXCESSES[name], CHANNELS[channel]
    if channel.startswith("hook"):
        monkeypatch.setenv("TILEIR_TRITON_CPU", channel.split()[1])
        monkeypatch.setenv("TILEIR_CACHE", "off")
    with limits(**{name: excess.value}):
        if checks in excess.checked:
            with refused(excess):
                act(excess)
        elif name != "register_percent":  # 65,536 elements by a simulator take long
            act(excess)


def commands(path: Path, folder: Path) -> Iterator[tuple[Any, list[str]]]:
    """Commands that compile the file for a GPU."""
    yield opt, [str(path), "--emit", "ptx", "-o", str(folder / "k.ptx")]
    yield opt, [str(path), "--emit", "llvm", "-o", str(folder / "k.ll")]
    yield main, ["aot", str(path), "-o", str(folder / "out")]


@for_each("name", EXCESSES)
def test_commands(name: str, tmp_path: Path, capfd: Any) -> None:
    """The error is all they write."""
    excess = EXCESSES[name]
    path = tmp_path / f"{name}.tir"
    path.write_text(excess.text)
    for command, words in commands(path, tmp_path):
        status = command([*words, "--limit", f"{name}={excess.value}", "--no-isolate"])
        out, err = capfd.readouterr()
        first, *_ = err.splitlines()
        assert (status, out) == (1, ""), (words, err)
        assert first.startswith(f"{path}:{excess.line}:") and f"error[{excess.code}]" in first
        assert err.count("error[") == 1 and "Traceback" not in err
        assert not any(tmp_path.glob("k.*")) and not (tmp_path / "out").exists()


SCRIPT = """
import numpy as np, sys
from tileir.errors import TileirError
from tileir.frontends.triton_backend.cpu.programs import CpuProgram
from tileir.limits import limits
from tests.frontends.triton_backend.fakes import Tensor
from tests.limits.test_channels import EXCESSES
excess = EXCESSES["{name}"]
with limits({name}=excess.value):
    try:
        CpuProgram("k", excess.text).launch((1, 1, 1), [Tensor(np.zeros(64, np.float32)), 2])
    except TileirError as error:
        assert error.code == excess.code, error
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("mode", "name"),
    [("interpreter", "tile_elements"), ("simt", "operations"), ("simt", "parameter_bytes")],
)
def test_check_triton_reports_it(mode: str, name: str, capfd: Any) -> None:
    """Even of a program that goes on after the error."""
    excess = EXCESSES[name]
    root = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {root!r})\n{SCRIPT.format(name=name)}"
    assert main(["check-triton", "--mode", mode, "--", sys.executable, "-c", code]) == 1
    out, err = capfd.readouterr()
    assert out.startswith(f"k.tir:{excess.line}:") and f"error[{excess.code}]" in out, err
    assert out.endswith("check-triton: 1 finding\n")
