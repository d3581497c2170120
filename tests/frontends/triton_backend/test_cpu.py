"""Launches on the CPU: tensors by address with the bounds of their storage."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tileir.errors import TileirError
from tileir.frontends.triton_backend.cpu.launcher import CpuLauncher
from tileir.frontends.triton_backend.cpu.module import module_text
from tileir.frontends.triton_backend.cpu.programs import CpuProgram
from tileir.frontends.triton_backend.cpu.uninitialized import fill_with_pattern, unwritten_bytes

from .fakes import Tensor
from .kernels import ADD, BLOCK_OF_8, OF_A_LIBRARY, PRINT, RACE, TABLE, TOTAL_OF_MASKED

MODES = ("native", "interpreter", "simt")


@pytest.fixture(params=MODES)
def mode(request, monkeypatch):
    monkeypatch.setenv("TILEIR_TRITON_CPU", request.param)
    return request.param


def program(text, name="add"):
    metadata = {}
    result = CpuProgram.from_binary(name, module_text(text, metadata, 4))
    assert metadata["name"] == name
    return result


def memory(count, dtype=np.float32):
    return np.arange(count).astype(dtype)


def test_a_kernel_runs(mode):
    x, y = Tensor(memory(200)), Tensor(memory(200))
    program(ADD).launch((3, 1, 1), [x, y, 150])
    expected = np.where(np.arange(200) < 150, 2 * np.arange(200), np.arange(200))
    assert (y.array == expected).all()


@pytest.mark.parametrize("grid", [(-1, 1, 1), (1, -2, 1), (1, 1, 70000)])
def test_grids_that_no_gpu_launches_are_refused(mode, grid):
    """A negative number of instances ran as a number of 64 bits."""
    x = Tensor(memory(64))
    with pytest.raises(TileirError, match="a grid"):
        program(ADD).launch(grid, [x, x, 64])


def test_an_empty_grid_runs_nothing(mode):
    x, y = Tensor(memory(64)), Tensor(memory(64))
    program(ADD).launch((2, 0, 1), [x, y, 64])
    assert (y.array == np.arange(64)).all()


NUMBERS = """\
module {
  tt.func public @numbers(%y: !tt.ptr<f64>, %a: f32, %b: f16, %c: bf16, %d: i8) {
    %one = arith.constant 1 : i32
    %wide = arith.extf %a : f32 to f64
    tt.store %y, %wide : !tt.ptr<f64>
    %y1 = tt.addptr %y, %one : !tt.ptr<f64>, i32
    %half = arith.extf %b : f16 to f64
    tt.store %y1, %half : !tt.ptr<f64>
    %y2 = tt.addptr %y1, %one : !tt.ptr<f64>, i32
    %short = arith.extf %c : bf16 to f64
    tt.store %y2, %short : !tt.ptr<f64>
    %y3 = tt.addptr %y2, %one : !tt.ptr<f64>, i32
    %byte = arith.sitofp %d : i8 to f64
    tt.store %y3, %byte : !tt.ptr<f64>
    tt.return
  }
}
"""


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_numbers_out_of_range_are_those_of_c(mode, sign):
    """Triton passes every float of Python as f32; kernels get finfo(float64).min as a mask."""
    y = Tensor(memory(4, np.float64))
    program(NUMBERS, "numbers").launch((1, 1, 1), [y, sign * 1e39, sign * 1e6, sign * 1e39, 300])
    assert y.array.tolist() == [sign * np.inf, sign * np.inf, sign * np.inf, 44]


def test_functions_of_libraries_are_refused_at_their_line(mode):
    with pytest.raises(TileirError, match="twice of the library mine is code of a GPU") as caught:
        program(OF_A_LIBRARY)
    assert str(caught.value).startswith("user.py:4:9: ")


def test_views_are_at_their_address(mode):
    x, y = Tensor(memory(100), 30), Tensor(memory(100), 37)
    program(ADD).launch((1, 1, 1), [x, y, 50])
    assert (y.memory[37:87] == 2 * np.arange(30, 80)).all()
    assert (y.memory[:37] == np.arange(37)).all()


def test_one_storage_may_have_several_tensors(mode):
    whole = memory(128)
    program(ADD).launch((1, 1, 1), [Tensor(whole), Tensor(whole, 64), 64])
    assert (whole[64:] == 2 * np.arange(64)).all()


def test_accesses_outside_of_the_storage_are_refused_at_the_users_line(mode):
    x, y = Tensor(memory(100)), Tensor(memory(60))
    with pytest.raises(TileirError) as caught:
        program(ADD).launch((2, 1, 1), [x, y, 100])
    assert caught.value.code == "TIR0501"
    assert str(caught.value.location).startswith("user.py:5")


def test_a_pointer_may_reach_what_of_its_storage_is_before_it(mode):
    back = ADD.replace(
        "%i = arith.addi %s, %r",
        "%c = arith.constant dense<-8> : tensor<64xi32> loc(#loc1)\n"
        "    %h = arith.addi %s, %r : tensor<64xi32> loc(#loc1)\n"
        "    %i = arith.addi %h, %c",
    )
    x, y = Tensor(memory(100), 8), Tensor(memory(100), 8)
    program(back).launch((1, 1, 1), [x, y, 64])
    assert (y.memory[:64] == 2 * np.arange(64)).all()


def test_prints_are_on_standard_output(mode, capsys):
    x = Tensor(memory(4) + 2)
    program(PRINT, "print").launch((2, 1, 1), [x])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["(0,", "0,", "0)"], ["(1,", "0,", "0)"]]
    assert [line.split()[-1] for line in lines] == ["2.0" if mode == "interpreter" else "2"] * 2


def test_addresses_in_tables_may_be_of_any_memory():
    other, y = memory(4) + 5, Tensor(memory(1))
    table = Tensor(np.array([other.ctypes.data + 8], np.int64))
    program(TABLE, "table").launch((1, 1, 1), [table, y])
    assert y.array[0] == 7


POINTERS = """\
module {
  tt.func public @add(%table: !tt.ptr<!tt.ptr<f32>>) {
    %five = arith.constant 5.0 : f32
    %x = tt.load %table : !tt.ptr<!tt.ptr<f32>>
    tt.store %x, %five : !tt.ptr<f32>
    tt.return
  }
}
"""


def test_pointers_in_tables_may_be_to_any_memory():
    """They are loaded through a parameter, and do not point into its memory."""
    x = memory(4)
    program(POINTERS).launch((1, 1, 1), [Tensor(np.array([x.ctypes.data], np.uint64))])
    assert x.tolist() == [5, 1, 2, 3]


def test_races_are_found_at_the_users_line(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEIR_TRITON_CPU", "interpreter")
    monkeypatch.setenv("TILEIR_TRITON_FINDINGS", str(tmp_path / "findings"))
    with pytest.raises(TileirError) as caught:
        program(RACE, "race").launch((4, 1, 1), [Tensor(memory(4, np.int32))])
    assert caught.value.code == "TIR0517"
    checked, line = map(json.loads, (tmp_path / "findings").read_text().splitlines())
    assert checked == {"checked": "race"}
    assert (line["file"], line["line"], line["kernel"]) == ("user.py", 14, "race")


def test_undefined_values_are_found_at_the_users_line(monkeypatch):
    monkeypatch.setenv("TILEIR_TRITON_CPU", "interpreter")
    x, y = Tensor(memory(64)), Tensor(memory(64))
    with pytest.raises(TileirError) as caught:
        program(TOTAL_OF_MASKED, "sum").launch((1, 1, 1), [x, y, 60])
    assert (caught.value.code, caught.value.line) == ("TIR0505", 5)
    program(TOTAL_OF_MASKED, "sum").launch((1, 1, 1), [x, y, 64])
    assert y.array[0] == 64 * 63


def test_memory_that_nothing_was_written_to_is_undefined(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEIR_TRITON_CPU", "interpreter")
    monkeypatch.setenv("TILEIR_TRITON_FINDINGS", str(tmp_path / "findings"))
    x, y = Tensor(memory(66), 2), Tensor(memory(64))
    fill_with_pattern(x.memory.view(np.uint8))
    fill_with_pattern(y.memory.view(np.uint8))
    x.array[:40] = 1
    cpu_program = program(ADD)
    cpu_program.launch((1, 1, 1), [x, y, 40])
    assert (y.array[:40] == 2).all()
    with pytest.raises(TileirError) as caught:
        cpu_program.launch((1, 1, 1), [x, y, 41])
    assert (caught.value.code, caught.value.line) == ("TIR0505", 5)
    _, line = map(json.loads, (tmp_path / "findings").read_text().splitlines())
    assert "nothing was written to elements of x, y" in line["notes"][-1]


@pytest.mark.parametrize("size", [0, 3, 4, 10, 64])
def test_the_pattern_of_unwritten_memory_ends_with_a_write(size):
    data = np.zeros(size, np.uint8)
    assert unwritten_bytes(data) is None
    fill_with_pattern(data)
    words = size // 4
    flags = unwritten_bytes(data)
    assert (flags is None) if not words else flags[: 4 * words].all()
    if words:
        data[1] ^= 1
        flags = unwritten_bytes(data)
        assert (
            (flags is None) if words == 1 else (not flags[:4].any() and flags[4 : 4 * words].all())
        )


@pytest.mark.parametrize("which", ["native", "simt"])
def test_elsewhere_what_is_masked_off_is_zero(monkeypatch, which):
    monkeypatch.setenv("TILEIR_TRITON_CPU", which)
    x, y = Tensor(memory(64)), Tensor(memory(64))
    program(TOTAL_OF_MASKED, "sum").launch((1, 1, 1), [x, y, 60])
    assert y.array[0] == 60 * 59


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("TILEIR_TRITON_CPU", "fast")
    with pytest.raises(TileirError, match="native, interpreter, simt"):
        program(ADD).launch((1, 1, 1), [Tensor(memory(64)), Tensor(memory(64)), 64])


def test_tensors_elsewhere_are_refused(mode):
    x = Tensor(memory(64))
    x.is_cpu, x.device = False, "cuda:0"
    with pytest.raises(TileirError, match="cuda:0"):
        program(ADD).launch((1, 1, 1), [x, x, 64])


class ViewOfLibrary:
    """What FlagGems passes for a tensor with other strides: it has no attribute `is_cpu`."""

    def __init__(self, tensor):
        self.data_ptr, self.untyped_storage = tensor.data_ptr, tensor.untyped_storage


def test_views_that_a_library_makes_have_the_bounds_of_their_tensor(mode):
    x, y = ViewOfLibrary(Tensor(memory(64))), Tensor(memory(64))
    program(ADD).launch((1, 1, 1), [x, y, 64])
    assert (y.array == 2 * np.arange(64)).all()
    with pytest.raises(TileirError):
        program(ADD).launch((2, 1, 1), [x, Tensor(memory(128)), 65])


def test_a_kernel_is_compiled_once(monkeypatch):
    from tileir.frontends.triton_backend.cpu import programs

    monkeypatch.setenv("TILEIR_TRITON_CPU", "native")
    compiled, own = [], programs.compile_for_cpu

    def count_and_compile(*arguments, **named):
        compiled.append(arguments)
        return own(*arguments, **named)

    monkeypatch.setattr(programs, "compile_for_cpu", count_and_compile)
    cpu_program, x, y = program(ADD), Tensor(memory(64)), Tensor(memory(64))
    for _ in range(5):
        cpu_program.launch((1, 1, 1), [x, y, 64])
    assert len(compiled) == 1


class Source:
    def __init__(self, **signature):
        self.signature = signature


class Recorded:
    def __init__(self):
        self.calls = []

    def launch(self, grid, values):
        self.calls.append((grid, values))


def test_a_launcher_passes_what_the_kernel_takes():
    called, hooks = Recorded(), []
    start = CpuLauncher(Source(x="*fp32", B="constexpr", t=("i32", "constexpr"), n="i32"), None)
    start(2, 1, 1, 0, called, None, "m", hooks.append, hooks.append, "x", 64, (5, 6), 7)
    assert called.calls == [((2, 1, 1), ["x", 5, 7])]
    assert hooks == ["m", "m"]
    with pytest.raises(TypeError, match="'float' object"):
        start(1.5, 1, 1, 0, called, None, "m", None, None, "x", 64, (5, 6), 7)


def test_a_host_descriptor_pads_with_what_it_says(mode):
    """In any order: a kernel's signature is the same for both."""
    cpu_program, x = program(BLOCK_OF_8, "block"), np.arange(24, dtype=np.float32).reshape(3, 8)
    for padding, outside in (("zero", 0), ("nan", np.nan), ("zero", 0)):
        described = SimpleNamespace(
            base=Tensor(x.reshape(-1)), shape=(3, 5), strides=(8, 1), padding=padding
        )
        y = Tensor(np.full(32, -1, np.float32))
        cpu_program.launch((1, 1, 1), [described, 3, 5, 8, 1, y])
        expected = np.full((4, 8), outside, np.float32)
        expected[:3, :5] = x[:, :5]
        np.testing.assert_array_equal(y.array.reshape(4, 8), expected)


def test_a_host_descriptor_is_followed_by_extents_and_strides():
    class Described:
        shape, strides = (3, 4), (4, 1)

    called, described = Recorded(), Described()
    start = CpuLauncher(Source(d="tensordesc<fp16[16, 32]>", n="i32"), None)
    start(1, 1, 1, 0, called, None, None, None, None, described, 7)
    assert called.calls == [((1, 1, 1), [described, 3, 4, 4, 1, 7])]
