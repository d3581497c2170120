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

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton_backend.fakes import Tensor
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.cpu.compile import compile as compile_for_cpu
from tileir.backend.runtime.cache import Cache
from tileir.backend.runtime.disk_store import DiskStore
from tileir.errors import TileirError
from tileir.executor import executor
from tileir.frontends import decoupled, tensor_comprehensions, tile, triton_c
from tileir.frontends.triton_backend.cpu.programs import CpuProgram
from tileir.limits import ABOUT, limits
from tileir.process import default_isolation
from tileir.textual import parse
from tileir.tools.main import main
from tileir.tools.opt import main as opt


@triton.jit
def unrolled_stores(x, N: tl.constexpr):
    for i in tl.static_range(N):
        tl.store(x + i, 1)  # evaluated too often


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
    assert {*EXCESSES, "evaluations", "seconds", "source_characters"} == set(ABOUT)


@contextmanager
def expect_limit(excess: Excess) -> Iterator[None]:
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
        with expect_limit(excess):
            cache.compile(module, "sm_90a", option)
        with expect_limit(excess):
            cache.submit(module, "sm_90a", option).result()
        with limits(**{name: excess.value}):
            with expect_limit(excess):
                cache.compile(module, "sm_90a")
            with expect_limit(excess):
                cache.submit(module, "sm_90a").result()
        assert cache.compile(module, "sm_90a") is kernel and submitted.result() is kernel
    with limits(**{name: excess.value}), expect_limit(excess):
        compile_kernel(module, "sm_90a")
    with expect_limit(excess):
        compile_kernel(module, "sm_90a", option)


def launch(excess: Excess, where: str, module: Any = None) -> None:
    arguments = [np.zeros(1 << 16, np.float32), 2]
    executor(where).launch(module or module_of(excess), "k", 1, arguments)


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
            with expect_limit(excess):
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
import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
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


PLAIN = Excess(7, "TIR1601", BACKENDS, "%f = sitofp f32 %n\nstore %x, %f")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in EXCESSES if name != "register_percent"])
@pytest.mark.parametrize("where", ["cpu", "simt", "interpreter"])
def test_executors_that_ran_it_under_other_limits(where: str, name: str) -> None:
    excess = EXCESSES[name]
    module, kind = module_of(excess), {"simt": "gpu"}.get(where, where)
    launch(excess, where, module)
    if kind in excess.checked:
        with limits(**{name: excess.value}), expect_limit(excess):
            launch(excess, where, module)
    launch(excess, where, module)


def test_what_exceeds_a_limit_of_the_cpu_is_not_left_to_the_interpreter() -> None:
    x = np.zeros(64, np.float32)
    with limits(operations=9), pytest.raises(TileirError, match="limit operations is 9"):
        unrolled_stores[(1,)](x, 40)


@attrs.frozen
class Endless:
    """Workers whose answers do not come within a time limit."""

    waited: list[float] = attrs.field(factory=list[float])

    def call(self, data: bytes, seconds: float) -> Any:
        self.waited.append(seconds)
        raise TimeoutError


@pytest.fixture
def endless(monkeypatch: Any) -> Iterator[Endless]:
    """Isolated compilation takes longer than any time limit."""
    workers = Endless()
    monkeypatch.setattr("tileir.backend.worker_pool.workers", lambda: workers)
    monkeypatch.setenv("TILEIR_CACHE", "off")
    with default_isolation():
        yield workers


@contextmanager
def out_of_time(workers: Endless, seconds: int = 7) -> Iterator[None]:
    """The body raises the error of the limit `seconds`, at the kernel, with its remedy."""
    with pytest.raises(TileirError) as caught:
        yield
    message = f"took longer than {seconds} s: the limit seconds is {seconds}; "
    assert (caught.value.code, str(caught.value.location)) == ("TIR1601", "k.tir:3:1")
    assert message + ABOUT["seconds"].remedy in str(caught.value), str(caught.value)
    assert set(workers.waited) == {seconds}
    workers.waited.clear()


def test_time_of_compilation_and_caches(endless: Endless, tmp_path: Path) -> None:
    module, option = module_of(PLAIN), {"limits": {"seconds": 7}}
    for cache in (Cache(None), Cache(DiskStore(tmp_path / "k"))):
        with out_of_time(endless):
            cache.compile(module, "sm_90a", option)
        with out_of_time(endless):
            cache.submit(module, "sm_90a", option).result()
        with limits(seconds=7):
            with out_of_time(endless):
                cache.compile(module, "sm_90a")
            with out_of_time(endless):
                cache.submit(module, "sm_90a").result()
        with limits(seconds=9), out_of_time(endless):
            cache.compile(module, "sm_90a", option)
    with out_of_time(endless):
        compile_kernel(module, "sm_90a", option)
    with limits(seconds=7), out_of_time(endless):
        compile_kernel(module, "sm_90a")


def test_time_of_assembly(endless: Endless) -> None:
    """The limits are those of the compilation, also where the assembler runs later."""
    with default_isolation(False):
        kernel = compile_kernel(module_of(PLAIN), "sm_90a", {"limits": {"seconds": 7}})
    kernel = attrs.evolve(kernel, isolate=True)
    with out_of_time(endless):
        assert kernel.cubin


@pytest.mark.parametrize("channel", ["executor cpu", "hook native"])
def test_time_of_executors_and_the_hook_of_triton(
    channel: str, endless: Endless, monkeypatch: Any
) -> None:
    if channel == "hook native":
        monkeypatch.setenv("TILEIR_TRITON_CPU", "native")
    with limits(seconds=7), out_of_time(endless):
        if channel == "hook native":
            CpuProgram("k", PLAIN.text).launch((1, 1, 1), [Tensor(np.zeros(64, np.float32)), 2])
        else:
            launch(PLAIN, "cpu")


def test_time_of_commands(endless: Endless, tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "k.tir"
    path.write_text(PLAIN.text)
    for command, words in commands(path, tmp_path):
        if "llvm" in words:  # what is written before code is generated
            continue
        assert command([*words, "--limit", "seconds=7"]) == 1
        out, err = capfd.readouterr()
        assert not out and err.startswith(f"{path}:3:1: error[TIR1601]: @k: "), err
        assert err.count("error[") == 1 and ABOUT["seconds"].remedy in err
        assert not any(tmp_path.glob("k.ptx")) and not (tmp_path / "out").exists()


EVALUATED: dict[str, Callable[[Any, int], Any]] = {
    "module": lambda x, n: unrolled_stores.module({"x": "*fp32"}, {"N": n}),
    "warmup": lambda x, n: unrolled_stores.warmup(x, n, grid=(1,)),
    **{
        f"launch {on}": lambda x, n, on=on: unrolled_stores[(1,)](x, n, on=on)
        for on in ("interpreter", "simt", "cpu")
    },
}


@pytest.mark.parametrize("channel", EVALUATED)
def test_evaluations_of_triton_python(channel: str) -> None:
    """Also of a kernel that was compiled under other limits; fewer evaluations pass."""
    act, x = EVALUATED[channel], np.zeros(64, np.float32)
    act(x, 60)
    lines = Path(__file__).read_text().splitlines()
    (line,) = [i for i, text in enumerate(lines, 1) if text.endswith("# evaluated too often")]
    with limits(evaluations=300):
        act(x, 3)
        for n in (59, 60):
            with pytest.raises(TileirError) as caught:
                act(x, n)
            assert (caught.value.code, caught.value.line) == ("TIR1601", line)
            assert ABOUT["evaluations"].remedy in str(caught.value)


SOURCES: dict[str, tuple[Callable[..., Any], str]] = {
    "Triton-C": (triton_c.parse, "kernel void k(int* x) {\n  *x = 1;\n}\n"),
    "Tile": (tile.parse, "function (A[N]) -> (O) {\n  O = A; }\n"),
    "Tensor Comprehensions": (
        tensor_comprehensions.parse,
        "def f(float(M) A) -> (C) {\n  C(m) = A(m) }\n",
    ),
    "Decoupled Triton": (
        decoupled.parse,
        "Func f; In A; Var x;\nf[x] = A[x]; f.block(x:2); f.compile();\n",
    ),
}


@pytest.mark.parametrize("language", SOURCES)
def test_source_characters(language: str) -> None:
    """The error is at the first character past the limit."""
    read, text = SOURCES[language]
    with limits(source_characters=len(text)):
        assert read(text, "k")
    first = text.index("\n") + 1
    with limits(source_characters=first + 3), pytest.raises(TileirError) as caught:
        read(text, "k")
    assert (caught.value.code, str(caught.value.location)) == ("TIR1601", "k:2:4")
    assert ABOUT["source_characters"].remedy in str(caught.value)
