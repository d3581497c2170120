"""Launches as programs for Triton write them: options, hooks of autotune, printing, debugging,
and names."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.sizes import for_each
from tileir import TileirError
from tileir.errors import Diagnostic, InfeasibleError
from tileir.textual import print_module

# Options ------------------------------------------------------------------------------------


@triton.jit
def one(x):
    tl.store(x, 1.0)


OPTIONS: dict[str, Any] = {
    "num_warps": 4, "num_stages": 2, "num_ctas": 1, "warp_size": 32, "maxnreg": 64,
    "ptx_version": 84, "ptx_options": "", "ir_override": None, "enable_fp_fusion": False,
    "enable_reflect_ftz": False, "launch_cooperative_grid": False, "launch_pdl": True,
    "supported_fp8_dtypes": ("fp8e5",), "deprecated_fp8_dot_operand_dtypes": (),
    "default_dot_input_precision": "ieee", "allowed_dot_input_precisions": ("ieee",),
    "max_num_imprecise_acc_default": 0, "extern_libs": {}, "debug": True, "backend_name": "cuda",
    "sanitize_overflow": False, "arch": "sm90", "instrumentation_mode": "",
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_triton_are_taken(name: str) -> None:
    x = np.zeros(1, np.float32)
    one[(1,)](x, **{name: OPTIONS[name]})
    assert x[0] == 1


def test_a_limit_above_the_registers_of_a_thread_is_all_of_them() -> None:
    """As for ptxas: autotuners try 256."""
    for limit in (255, 256):
        launch = one.prepare(np.zeros(1, np.float32), grid=(1,), on="gpu", maxnreg=limit)
        assert launch.candidate.options == {"max_registers": 255}


@pytest.mark.parametrize("name", ["no_such_option", "num_warp", "NUM_WARPS"])
def test_options_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(TileirError, match=name):
        one[(1,)](np.zeros(1, np.float32), **{name: 1})
    with pytest.raises(TileirError, match=name):
        triton.jit(**{name: 1})
    with pytest.raises(TileirError, match=name):
        triton.autotune([], key=[], **{name: 1})(one)


@triton.jit
def product(z, x, y):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    tl.store(z + at, tl.dot(tl.load(x + at), tl.load(y + at)))


def test_the_default_precision_of_dots_is_an_option() -> None:
    x = np.zeros((16, 16), np.float32)
    for options, word in (({}, "tf32"), ({"default_dot_input_precision": "ieee"}, None)):
        text = print_module(product.warmup(x, x, x, grid=(1,), **options))
        assert ("precision = tf32" in text) == (word == "tf32")


@triton.jit
def matmul_by_options(x, y, z, PRECISION: tl.constexpr, TF32: tl.constexpr, STEPS: tl.constexpr):
    i = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    result = tl.dot(
        tl.load(x + i), tl.load(y + i), input_precision=PRECISION, allow_tf32=TF32,
        max_num_imprecise_acc=STEPS,
    )  # fmt: skip
    tl.store(z + i, result)


def dot_of(kinds: tuple[Any, Any], *constants: Any, **options: Any) -> Any:
    """The `dot` of the kernel for operands of two types."""
    x, y = (np.zeros((32, 32), kind) for kind in kinds)
    z = np.zeros((32, 32), np.int32 if np.dtype(kinds[0]).kind in "iu" else np.float32)
    kernel = matmul_by_options.warmup(x, y, z, *constants, grid=(1,), **options).kernel()
    (op,) = [op for op in kernel.ops if op.mnemonic == "dot"]
    return op


@for_each(
    ("precision", "tf32", "default", "expected"),
    [
        (None, None, None, "tf32"), (None, None, "ieee", "ieee"), (None, True, "ieee", "tf32"),
        (None, False, None, "ieee"), ("ieee", None, None, "ieee"), ("tf32", None, "ieee", "tf32"),
        ("tf32x3", None, None, "tf32x3"), ("IEEE", None, None, "ieee"),
        ("ieee", True, None, "ieee"),
    ],
)  # fmt: skip
def test_the_precision_of_a_dot(
    precision: str | None, tf32: bool | None, default: str | None, expected: str
) -> None:
    """`input_precision` decides, then `allow_tf32`, then the option of the launch."""
    options = {} if default is None else {"default_dot_input_precision": default}
    op = dot_of((np.float32, np.float32), precision, tf32, None, **options)
    assert op.precision.value == expected
    half = dot_of((np.float16, np.float16), precision, tf32, None, **options)
    assert half.precision.value == "ieee"


@for_each(
    ("kinds", "steps", "imprecise", "signed"),
    [
        ((np.int8, np.int8), None, 0, (True, True)), ((np.uint8, np.int8), None, 0, (False, True)),
        ((np.int8, np.uint8), None, 0, (True, False)),
        ((ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2), 64, 64, (True, True)),
        ((ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn), 32, 32, (True, True)),
        ((ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2), 0, 0, (True, True)),
        ((np.float16, np.float16), 64, 0, (True, True)), ((np.int8, np.int8), 64, 0, (True, True)),
    ],
)  # fmt: skip
def test_signs_and_imprecise_steps_of_a_dot(
    kinds: tuple[Any, Any], steps: int | None, imprecise: int, signed: tuple[bool, bool]
) -> None:
    """Each integer operand has a sign of its own; only 8-bit floats are accumulated imprecisely."""
    op = dot_of(kinds, None, None, steps)
    assert (op.max_imprecise, (op.lhs_signed, op.rhs_signed)) == (imprecise, signed)


# Debugging ----------------------------------------------------------------------------------


@triton.jit
def check_bounds(x):
    tl.device_assert(tl.load(x) > 0, "not positive")
    assert tl.load(x) < 100, "too large"
    tl.store(x, 5)


@triton.jit(debug=True)
def always_checked(x):
    tl.device_assert(tl.load(x) > 0, "not positive")


@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
def test_assertions_of_the_device_hold_in_debugging_alone(
    on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.zeros(1, np.int32)
    check_bounds[(1,)](x, on=on)
    assert x[0] == 5
    for kernel, options in ((check_bounds, {"debug": True}), (always_checked, {})):
        with pytest.raises(TileirError, match="not positive"):
            kernel[(1,)](np.zeros(1, np.int32), on=on, **options)
    with pytest.raises(TileirError, match="too large"):
        check_bounds[(1,)](np.full(1, 100, np.int32), on=on, debug=True)
    monkeypatch.setenv("TRITON_DEBUG", "1")
    with pytest.raises(TileirError, match="not positive"):
        check_bounds[(1,)](np.zeros(1, np.int32), on=on)


@for_each(
    ("word", "checks"),
    [("1", True), ("on", True), ("TRUE", True), ("y", True), ("0", False), ("off", False)],
)
def test_words_that_enable_debugging(word: str, checks: bool) -> None:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_DEBUG", word)
        module = check_bounds.warmup(np.zeros(1, np.int32), grid=(1,))
    assert any(op.mnemonic == "assert" for op in module.kernel().ops) == checks


@triton.jit
def add_first(x, y):
    tl.store(x, tl.load(x) + tl.load(y))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint8, np.uint32])
def test_sums_that_overflow_are_found_in_debugging(kind: Any) -> None:
    top = np.iinfo(kind).max
    for options in ({"debug": True}, {"debug": True, "sanitize_overflow": True}):
        with pytest.raises(TileirError, match="overflow detected for operation add"):
            add_first[(1,)](np.array([top], kind), np.array([1], kind), **options)
    x = np.array([top - 1], kind)
    add_first[(1,)](x, np.array([1], kind), debug=True)
    assert x[0] == top
    for debug, sanitize_overflow in ((True, False), (False, True), (False, False)):
        x = np.array([top], kind)
        add_first[(1,)](
            x,
            np.array([1], kind),
            debug=debug,
            sanitize_overflow=sanitize_overflow,
            on="interpreter",
        )
        assert x[0] == np.iinfo(kind).min


@triton.jit
def compute_unchecked(x, out, CHECKED: tl.constexpr):
    a = tl.load(x)
    tl.store(out, tl.add(a, a, sanitize_overflow=CHECKED))
    tl.store(out + 1, tl.sub(-1 - a, a, sanitize_overflow=CHECKED))
    tl.store(out + 2, tl.mul(a, a, sanitize_overflow=CHECKED))


@pytest.mark.parametrize("kind", [np.int8, np.int32])
def test_an_operator_may_be_unchecked_in_debugging(kind: Any) -> None:
    top, out = np.array([np.iinfo(kind).max], kind), np.zeros(3, kind)
    compute_unchecked[(1,)](top, out, CHECKED=False, debug=True)
    assert out.tolist() == [-2, 1, 1]
    with pytest.raises(TileirError, match="overflow detected"):
        compute_unchecked[(1,)](top, out, CHECKED=True, debug=True)


# Printing -----------------------------------------------------------------------------------


@triton.jit
def spoken(x):
    print("here")
    print("value", 7, tl.load(x))
    tl.device_print("x", tl.load(x))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
@pytest.mark.parametrize(
    "value",
    [
        np.uint8(200), np.uint16(65535), np.uint32(1 << 31), np.uint64((1 << 64) - 1),
        np.int8(-3), np.int64(-1),
    ],
)  # fmt: skip
def test_every_launch_prints_numbers_by_their_sign(
    on: str, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        spoken[(2,)](np.array([value]), on=on)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.endswith("here") for line in lines) == 4
    assert sum(line.endswith(f"x {value}") for line in lines) == 4
    assert sum("value 7" in line and line.endswith(f" {value}") for line in lines) == 4


@triton.jit
def in_hexadecimal(x):
    tl.device_print("x", tl.load(x), hex=True)


@pytest.mark.parametrize("on", ["interpreter", "cpu", "simt"])
def test_hexadecimal_numbers_are_bits(on: str, capsys: pytest.CaptureFixture[str]) -> None:
    in_hexadecimal[(1,)](np.array([-56], np.int8), on=on)
    assert capsys.readouterr().out.strip().endswith("0xc8")


# Autotune -----------------------------------------------------------------------------------


@triton.jit
def increment(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, tl.load(x + i) + 1.0)


CONFIGS = [triton.Config({"B": 16}), triton.Config({"B": 32}, num_warps=2)]


def test_hooks_are_called_as_triton_calls_them() -> None:
    called: list[Any] = []

    def before(named: Any, reset_only: bool = False) -> None:
        called.append(("pre", named["B"], named["n"], reset_only))

    def after(named: Any, exception: Any) -> None:
        called.append(("post", named["B"], exception))

    def bench(function: Any, quantiles: Any) -> Any:
        function()
        called.append(("bench", quantiles))
        return [float(len(called)), 0.0, 0.0]

    def prune(configs: Any, named_args: Any, **named: Any) -> Any:
        called.append(("prune", sorted(named_args), sorted(named)))
        return configs

    tuned = triton.autotune(
        CONFIGS, key=["n"], pre_hook=before, post_hook=after, do_bench=bench,
        prune_configs_by={"early_config_prune": prune},
    )(increment)  # fmt: skip
    x = np.zeros(32, np.float32)
    tuned[(1,)](x, n=32)
    measured = [
        [("pre", b, 32, False), ("post", b, None), ("bench", (0.5, 0.2, 0.8))] for b in (16, 32)
    ]
    chosen = ("pre", 16, 32, True)
    assert called == [("prune", ["x"], ["n"]), *itertools.chain(*measured), chosen]
    assert tuned.best_config is CONFIGS[0] and list(tuned.configs_timings) == CONFIGS
    before_second = list(called)
    tuned[(1,)](x, n=32)
    assert called == before_second and tuned.arg_names == ["x", "n", "B"]


def test_each_value_of_a_key_is_tuned_once_however_it_is_passed() -> None:
    measured: list[Any] = []

    def bench(function: Any, quantiles: Any) -> Any:
        function()
        measured.append(quantiles)
        return float(len(measured))

    tuned = triton.autotune(CONFIGS, key=["n"], do_bench=bench)(increment)
    x = np.zeros(32, np.float32)
    for place, n in enumerate((32, 16, 32, 8)):
        tuned[(1,)](x, n=n)
        tuned[(1,)](x, n)
        tuned[(1,)](n=n, x=x)
        assert len(measured) == len(CONFIGS) * len({32, *(32, 16, 32, 8)[: place + 1]})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hooked", [True, False])
def test_arrays_are_set_to_zero_and_restored(hooked: bool) -> None:
    def bench(function: Any, quantiles: Any) -> Any:
        for _ in range(3):
            function()
        return 1.0

    options: dict[str, Any] = {"do_bench": bench} if hooked else {}
    x = np.full(32, 7, np.float32)
    triton.autotune(CONFIGS, key=["n"], restore_value=["x"], **options)(increment)[(1,)](x, 32)
    assert x[0] == 8 and set(x.tolist()) <= {7, 8}
    x = np.full(32, 7, np.float32)
    triton.autotune(CONFIGS, key=["n"], reset_to_zero=["x"], **options)(increment)[(1,)](x, 32)
    assert x[0] == 1 and set(x.tolist()) <= {0, 1}


def test_a_hook_learns_of_a_configuration_that_fails() -> None:
    failed: list[Any] = []

    def after(named: Any, exception: Any) -> None:
        failed.append(exception)

    configs = [triton.Config({"B": 16}), triton.Config({"B": 1 << 18})]
    tuned = triton.autotune(configs, key=[], post_hook=after)(increment)
    tuned[(1,)](np.zeros(32, np.float32), 32)
    assert any(isinstance(error, TileirError) for error in failed)
    assert list(tuned.configs_timings) == [configs[0]]


def test_a_configuration_that_leaves_its_arrays_counts_as_failed() -> None:
    configs = [triton.Config({"B": 128}), triton.Config({"B": 1 << 18})]
    tuned = triton.autotune(configs, key=[])(increment)
    x = np.zeros(512, np.float32)
    for _ in range(3):
        tuned[(1,)](x, 512)
    assert (x[:128] == 3).all() and not x[128:].any()
    assert list(tuned.configs_timings) == configs[:1]
    alone = triton.autotune([triton.Config({"B": 1 << 17}), configs[1]], key=[])(increment)
    with pytest.raises(TileirError, match="no configuration of increment"):
        alone[(1,)](x, 512)


def test_what_a_configuration_states_is_not_passed_twice() -> None:
    with pytest.raises(TileirError, match="B is given"):
        triton.autotune(CONFIGS, key=[])(increment)[(1,)](np.zeros(32, np.float32), 32, B=16)


# Benchmarks ---------------------------------------------------------------------------------


def test_benchmarks_take_what_tutorials_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @triton.testing.perf_report(
        triton.testing.Benchmark(
            x_names=["M", "N"], x_vals=[1, (2, 3)], line_arg="p", line_vals=["a", "b"],
            line_names=["A", "B"], styles=[("blue", "-"), ("green", "--")], ylabel="GB/s",
            plot_name="t", args={"more": 1}, x_log=True,
        )
    )  # fmt: skip
    def measure(M: int, N: int, p: str, more: int) -> Any:
        return (M * N + more, 1.0, 2.0) if p == "a" else M * 1.0

    assert measure.run(print_data=True, show_plots=False) is None
    assert "A (GB/s)" in capsys.readouterr().out
    measure.run(show_plots=False, print_data=False, save_path=str(tmp_path / "made"))
    rows = (tmp_path / "made" / "t.csv").read_text().split()
    assert rows[-2:] == ["1,1,2,1.0", "2,3,7,2.0"]


def test_do_bench_takes_its_options() -> None:
    class Tensor:
        grad: Any = 1

    t, bench = Tensor(), triton.testing.do_bench
    for mode in ("min", "max", "mean", "median"):
        assert bench(lambda: None, 1, 1, grad_to_none=[t], return_mode=mode) >= 0
    assert t.grad is None
    assert len(bench(lambda: None, warmup=1, rep=1, quantiles=[0.5, 0.2, 0.8])) == 3
    assert isinstance(bench(lambda: None, warmup=1, rep=1, quantiles=[0.5]), float)
    assert isinstance(bench(lambda: None, warmup=1, rep=1, return_mode="all"), list)
    assert triton.testing.do_bench_cudagraph(lambda: None, rep=1) >= 0
    with pytest.raises(ValueError, match="return_mode"):
        bench(lambda: None, return_mode="most")


# Names --------------------------------------------------------------------------------------


def test_names_of_triton_are_there() -> None:
    for name in ("errors", "jit", "autotuner", "driver"):
        importlib.import_module(f"tileir.frontends.triton.runtime.{name}")
    assert callable(triton.runtime.jit.jit) and triton.runtime.jit.JITFunction is triton.JITFunction
    for name in ("OutOfResources", "TritonError", "KernelInterface", "InterpreterError"):
        assert isinstance(getattr(triton, name), type)
    assert issubclass(triton.CompilationError, triton.TritonError)
    assert issubclass(triton.OutOfResources, triton.TritonError)
    assert isinstance(one, triton.KernelInterface)
    assert tl.pi32_t == tl.pointer_type(tl.int32)


def test_types_have_triton_s_attributes() -> None:
    named = {
        "int1": tl.int1, "int8": tl.int8, "uint64": tl.uint64, "float32": tl.float32,
        "bfloat16": tl.bfloat16, "float8e4nv": tl.float8e4nv, "float64": tl.float64,
    }  # fmt: skip
    assert {name: repr(kind) for name, kind in named.items()} == {
        name: f"triton.language.{name}" for name in named
    }
    widths = [tl.float8e4nv, tl.float8e5, tl.float16, tl.bfloat16, tl.float32, tl.float64]
    assert [k.fp_mantissa_width for k in widths] == [3, 2, 10, 7, 23, 52]
    assert tl.int1.is_int_unsigned() and not tl.int1.is_int_signed()
    assert (tl.int8.get_int_min_value(), tl.uint8.get_int_max_value()) == (-128, 255)
    assert tl.uint16.int_bitwidth == 16 and not hasattr(tl.float32, "int_bitwidth")
    assert tl.block_type(tl.float16, [4, 8]).nbytes == 64


def test_what_does_not_fit_is_an_error_by_triton_s_name() -> None:
    error = triton.OutOfResources(300, 200, "shared memory")
    assert "shared memory" in str(error) and error.required == 300 and error.limit == 200
    cause = InfeasibleError(Diagnostic("TIR0708", "too much"))
    assert "too much" in str(triton.OutOfResources.of(cause))
