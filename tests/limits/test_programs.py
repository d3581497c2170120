"""Programs that ask for more than a limit are refused where they ask; those within it compile."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.cpu.compile import lower
from tileir.errors import DefectError, InfeasibleError, PassError
from tileir.limits import limits
from tileir.passmanager import run as run_passes
from tileir.textual import parse

HERE = Path(__file__).parent
REFUSED = sorted((HERE / "refused").glob("*.tir"))
ACCEPTED = sorted((HERE / "accepted").glob("*.tir"))
EXPECTED = re.compile(r"; refused: (\w+) at `(.*?)`: ([^;\n]*)(?:; (\w+))?\n")


@pytest.mark.parametrize("path", REFUSED, ids=lambda p: p.stem)
def test_what_exceeds_a_limit_is_refused_where_it_asks(path, monkeypatch):
    """Before the text for LLVM is written, which would take minutes."""
    monkeypatch.setattr(sys.modules["tileir.backend.compile"], "emit_kernel", None)
    text = path.read_text()
    code, place, words, target = EXPECTED.match(text).groups()
    targets = [target] if target else ["sm_80", "sm_90a", "sm_120"]
    for name in targets:
        with pytest.raises((InfeasibleError, PassError)) as caught:
            compile_kernel(parse(text), name)
        error = caught.value
        assert error.code == code and not isinstance(error, DefectError)
        assert words in str(error), str(error)
        assert place in text.splitlines()[error.line - 1], str(error)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("path", ACCEPTED, ids=lambda p: p.stem)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_what_is_within_the_limits_is_assembled(path, target):
    compiled = compile_kernel(parse(path.read_text()), target)
    assert len(compiled.ptx) < 1 << 20 and len(compiled.cubin) < 1 << 20


def test_the_tile_that_is_suggested_fits():
    for name in ("dot_512_f16", "dot_256_i8", "dot_512_f32"):
        text = (HERE / "refused" / f"{name}.tir").read_text()
        with pytest.raises(InfeasibleError) as caught:
            compile_kernel(parse(text), "sm_80")
        m, n, k = map(int, re.search(r"(\d+)x(\d+) with (\d+) of K", str(caught.value)).groups())
        match = re.search(r"dot \w+<(\d+), (\d+)>", text)
        smaller = tile_of(text, (int(match[1]), int(match[2])), (m, n, k))
        assert compile_kernel(parse(smaller), "sm_80").metadata.spills < 256


@pytest.mark.parametrize("percent", [3, 60])
def test_a_tile_that_fits_the_limit_on_registers_is_suggested(percent):
    """Of an elementwise operation and of a dot: the suggestion is within the limit."""
    warps = {"num_warps": 8}
    with limits(register_percent=percent):
        text = (HERE / "refused" / "gather_of_262144.tir").read_text()
        words = f"limit register_percent of {percent} % .* or raise the limit"
        with pytest.raises(InfeasibleError, match=words) as caught:
            compile_kernel(parse(text), "sm_80", warps)
        size = re.search(r"tiles of (\d+)", str(caught.value))[1]
        compile_kernel(parse(text.replace("262144", size)), "sm_80", warps)
        dot = (HERE / "refused" / "dot_256_i8.tir").read_text()
        with pytest.raises(InfeasibleError, match=words) as caught:
            compile_kernel(parse(dot), "sm_80", warps)
        match = re.search(r"(\d+)x(\d+) with (\d+) of K", str(caught.value))
        assert match or percent == 3
        if match:
            smaller = tile_of(dot, (256, 256), tuple(map(int, match.groups())))
            compile_kernel(parse(smaller), "sm_80", warps)


def tile_of(text, old, new):
    """The matmul with other extents: A is `a` in names, B `b`, C `c`."""
    (rows, _), (m, n, k) = old, new
    extents = {"a": (m, k), "b": (k, n), "c": (m, n)}
    lines = []
    for line in text.splitlines():
        name = re.search(r"%([abc])[rcmosp]", line)
        here = extents[name[1]] if name else extents[{"x": "a", "y": "b"}.get(line[3:4], "c")]
        both = f"<{here[0]}, {here[1]}>"
        line = line.replace(f"<{rows}, {rows}>", both)
        line = line.replace(f"<{rows}, 1>", f"<{here[0]}, 1>").replace(
            f"<1, {rows}>", f"<1, {here[1]}>"
        )
        if "make_range" in line:
            line = line.replace(f"<{rows}>", f"<{here[0] if 'r =' in line else here[1]}>")
        lines.append(re.sub(rf", {rows}$", f", {here[1]}", line))
    return "\n".join(lines) + "\n"


def test_tiles_are_refused_by_the_interpreter_passes_and_the_cpu():
    from tileir.executor import executor
    from tileir.passmanager import run

    module = parse((HERE / "refused" / "tile_of_2_32_elements.tir").read_text())
    for action in (
        lambda: tileir.interpret(module, "k", 1, [None, 1.0]),
        lambda: run(module, "default"),
        lambda: executor("cpu").launch(module, "k", 1, [None, 1.0]),
        lambda: executor("simt").launch(module, "k", 1, [None, 1.0]),
    ):
        with pytest.raises(tileir.TileirError) as caught:
            action()
        assert caught.value.code == "TIR1601" and caught.value.line == 6


@pytest.mark.parametrize("name", ["interpreter", "cpu"])
def test_globals_are_refused_by_other_executors(name):
    from tileir.executor import executor

    module = parse((HERE / "refused" / "global_of_4_tb.tir").read_text())
    with pytest.raises(tileir.TileirError) as caught:
        executor(name).launch(module, "k", 1, [None])
    assert caught.value.code == "TIR1601" and caught.value.line == 4


def test_chains_of_calls_are_limited_in_all():
    """Each function calls the one before once: sizes add up to the square of their number."""
    text = "tir 1.0\ndefine private i32 @f0(i32 %x) {\nentry:\n  ret %x\n}\n"
    body = "  %y = add i32 %x, 1\n" + "".join(f"  %y{i} = add i32 %y, {i}\n" for i in range(399))
    for i in range(1, 95):
        text += f"define private i32 @f{i}(i32 %x) {{\nentry:\n{body}"
        text += f"  %r = call i32 @f{i - 1}, %y\n  ret %r\n}}\n"
    text += "define kernel void @k(i32* %x, i32 %n) {\nentry:\n"
    text += "  %r = call i32 @f94, %n\n  store %x, %r\n  ret\n}\n"
    with pytest.raises(PassError, match="of all functions: the limit operations"):
        compile_kernel(parse(text))


def doubling(levels, word):
    text = f"tir 1.0\ndefine private {word} i32 @f0(i32 %x) {{\nentry:\n  ret %x\n}}\n"
    for i in range(1, levels + 1):
        text += (
            f"define private {word} i32 @f{i}(i32 %x) {{\nentry:\n  %a = call i32 @f{i - 1}, %x\n"
        )
        text += f"  %b = call i32 @f{i - 1}, %a\n  %m = mul i32 %a, %x\n  %c = xor i32 %m, %b\n"
        text += "  ret %c\n}\n"
    text += "define kernel void @k(i32* %x, i32 %n) {\nentry:\n"
    return parse(f"{text}  %r = call i32 @f{levels}, %n\n  store %x, %r\n  ret\n}}\n")


def test_functions_that_stay_are_functions_in_the_code():
    """LLVM would replace 2^24 calls."""
    compiled = compile_kernel(doubling(24, "noinline"))
    assert compiled.cubin and len(compiled.ptx) < 100_000
    from tileir.executor import executor

    results = []
    for levels, name in ((10, "interpreter"), (10, "cpu"), (24, "cpu")):
        x = np.zeros(1, np.int32)
        executor(name).launch(doubling(levels, "noinline"), "k", 1, [x, 3])
        results.append(x[0])
    assert results[0] == results[1]


def _long(count, call=None):
    """A kernel of `count` operations, of which number `call` calls a function of three."""
    lines = [f"  %v{i} = xor i32 %n, {i}\n" for i in range(count - 2)]
    if call is not None:
        lines[call] = "  %r = call i32 @f, %n\n"
    text = "tir 1.0\ndefine private i32 @f(i32 %x) {\nentry:\n  %a = add i32 %x, 1\n"
    text += "  %b = add i32 %a, 1\n  ret %b\n}\ndefine kernel void @k(i32* %x, i32 %n) {\nentry:\n"
    return parse(f"{text}{''.join(lines)}  store %x, %n\n  ret\n}}\n")


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "cpu"])
def test_operations_of_a_function_count_without_calls(target):
    def compile_long(count):
        if target == "cpu":
            with limits(operations=20):
                return lower(_long(count), "k")
        options = {"limits": {"operations": 20}}
        return compile_kernel(_long(count), target=target, options=options)

    assert compile_long(20)
    with pytest.raises(tileir.TileirError) as caught:
        compile_long(21)
    assert caught.value.code == "TIR1601" and "@k has 21 operations" in str(caught.value)
    assert caught.value.line == 10 + 20, "the first operation beyond the limit"


@pytest.mark.parametrize("call", [0, 9, 16])
def test_operations_after_a_call_count(call):
    """18 operations, and three for the call: wherever it is."""
    with limits(operations=21):
        run_passes(_long(19, call), "inline")
    with limits(operations=20), pytest.raises(PassError) as caught:
        run_passes(_long(19, call), "inline")
    assert caught.value.code == "TIR1601"
    assert caught.value.line == 10 + call, "the call"
