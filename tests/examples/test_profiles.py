"""What `benchmarks/profiles.py` makes of what Nsight Compute prints, and of what was measured."""

import json
import os
import stat
import sys

import pytest


@pytest.fixture(scope="module")
def ncu(benchmarks):
    return benchmarks("ncu")


@pytest.fixture(scope="module")
def limiters(benchmarks):
    return benchmarks("limiters")


@pytest.fixture(scope="module")
def measured_script(benchmarks):
    return benchmarks("measured")


@pytest.fixture(scope="module")
def profiles(benchmarks):
    return benchmarks("profiles")


FIXED = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
FIXED += '"Block Size","Grid Size","Device","CC"'
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COLUMNS = {
    "gpu__time_duration.sum": "ns", "launch__grid_size": "", "launch__waves_per_multiprocessor": "",
    "launch__shared_mem_per_block_dynamic": "Kbyte/block", "launch__registers_per_thread": "",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "%",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "%",
    STALL.format("gmma"): "inst", STALL.format("selected"): "inst",
}  # fmt: skip


def wide(*launches):
    """What `ncu --csv --page raw` writes for (name, values)."""
    every = ['"ID"', *FIXED.split(",")[1:], *(f'"{name}"' for name in COLUMNS)]
    units = [*['""'] * 11, *(f'"{unit}"' for unit in COLUMNS.values())]
    lines = ["==PROF== Connected to process 7 (python3.12)", ",".join(every), ",".join(units)]
    for place, (name, values) in enumerate(launches):
        fixed = [place, 7, "python3.12", "127.0.0.1", name, 1, 7, "(384, 1, 1)", "(132, 1, 1)"]
        row = [*fixed, 0, 9.0, *values]
        lines.append(",".join(f'"{cell}"' for cell in row))
    return "\n".join((*lines, "==PROF== Disconnected from process 7"))


EMPTY = ("at::cuda::spin_kernel(long)", ("1,216", 1, "0.00", 0, 16, "0.0", "0.1", "0", "1.0"))
OURS = ("matmul", ("28,928", 132, "1.00", "213.0", 168, "81.5", "20.25", "4.5", "1.0"))
PEER = (
    "sm90_xmma_gemm<f16, f16>(Params, int)",
    ("27,000", 128, "0.97", "n/a", 168, "78.0", "", "2.5", "1.0"),
)


def test_a_line_for_each_launch_has_metrics_in_usual_units(ncu):
    empty, ours, peer = ncu.parse(wide(EMPTY, OURS, PEER))
    assert empty.metrics["gpu__time_duration.sum"] == pytest.approx(1.216)
    assert ours.name == "matmul"
    assert ours.metrics["gpu__time_duration.sum"] == pytest.approx(28.928)
    assert ours.metrics["launch__shared_mem_per_block_dynamic"] == pytest.approx(213_000)
    assert ours.metrics[STALL.format("gmma")] == 4.5
    assert peer.name == "sm90_xmma_gemm<f16, f16>(Params, int)"
    assert "launch__shared_mem_per_block_dynamic" not in peer.metrics
    assert "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed" not in peer.metrics
    assert not any("Process" in name for name in ours.metrics)


def test_a_line_for_each_metric_says_the_same(ncu):
    header = f'{FIXED},"Section Name","Metric Name","Metric Unit","Metric Value"'
    fixed = '"{}","7","python3.12","host","{}","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0",""'
    lines = [
        "==PROF== Connected", header,
        fixed.format(0, "f(int, int)") + ',"gpu__time_duration.sum","usecond","28.93"',
        fixed.format(0, "f(int, int)") + ',"launch__grid_size","","1,056"',
        fixed.format(1, "g") + ',"gpu__time_duration.sum","msecond","1.5"',
        fixed.format(1, "g") + ',"lts__t_sector_hit_rate.pct","%","(!) nan"',
    ]  # fmt: skip
    first, second = ncu.parse("\n".join(lines))
    expected = {"gpu__time_duration.sum": 28.93, "launch__grid_size": 1056.0}
    assert first == ncu.Kernel("f(int, int)", expected)
    assert second == ncu.Kernel("g", {"gpu__time_duration.sum": 1500.0})


@pytest.mark.parametrize("text", ["", "==ERROR== ERR_NVGPUCTRPERM", "==WARNING== No kernels"])
def test_what_has_no_table_has_no_launches(ncu, text):
    assert ncu.parse(text) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"us": 1.7, "dram": 90.0}, "launch latency"),
        ({"us": 500.0, "dram": 88.4, "idle": 30.0}, "memory bandwidth, 88 %"),
        ({"us": 500.0, "tensor": 88.0, "idle": 4.0}, "tensor cores, 88 %"),
        ({"us": 50.0, "tensor": 88.0, "idle": 24.0, "waves": 1.3},
         "quantisation, 22 % of processors idle"),
        ({"us": 50.0, "waves": 1.25}, "quantisation, 35 % of processors idle"),
        ({"us": 10.0, "idle": 60.0, "waves": 0.4}, "too few blocks, 48 % of processors idle"),
        ({"us": 6.0, "idle": 30.0, "waves": 1.0, "l2": 81.0}, "L2 bandwidth, 81 %"),
        ({"us": 50.0, "l1": 93.0}, "shared memory and L1 bandwidth, 93 %"),
        ({"us": 50.0, "pipe": ("xu", 85.0)}, "special functions, 85 %"),
        ({"us": 50.0, "issue": 84.0, "pipe": ("xu", 20.0)}, "instruction issue, 84 %"),
        ({"us": 50.0, "tensor": 60.0, "stalls": (("gmma", 4.5), ("wait", 1.0))},
         "latency: GMMA (warpgroup MMAs)"),
        ({"us": 50.0, "stalls": (("of_some_new_kind", 4.5),)}, "latency: of some new kind"),
        ({"us": 50.0}, "not known"),
        ({}, "not known"),
    ],
)  # fmt: skip
def test_the_first_rule_that_fits_names_the_limiter(limiters, facts, words):
    assert limiters.limiter(limiters.Facts(**facts), empty=1.2) == words


def test_facts_are_found_by_any_of_their_names(limiters):
    active = "pct_of_peak_sustained_active"
    facts = limiters.facts({
        "gpu__time_duration.sum": 10.0, "sm__cycles_active.avg": 12_000.0,
        "gpc__cycles_elapsed.max": 15_000.0, f"sm__inst_executed_pipe_xu.avg.{active}": 40.0,
        f"sm__pipe_fma_cycles_active.avg.{active}": 55.0,
        f"sm__pipe_tensor_op_hmma_cycles_active.avg.{active}": 70.0,
        f"sm__inst_executed_pipe_tensor_op_gmma.avg.{active}": 30.0,
        "l1tex__throughput.avg.pct_of_peak_sustained_active": 20.0,
        "l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed": 35.0,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 12.0,
        "launch__occupancy_limit_registers": 2.0,
        STALL.format("long_scoreboard"): 3.0, STALL.format("wait"): 5.0,
        STALL.format("selected"): 9.0, STALL.format("not_selected"): 8.0,
        STALL.format("barrier_not_issued"): 7.0, STALL.format("drain"): 0.0,
    })  # fmt: skip
    assert facts.idle == pytest.approx(20.0)
    assert facts.ghz == pytest.approx(1.5)
    assert (facts.tensor, facts.dram, facts.l1) == (70.0, 12.0, 35.0)
    assert facts.pipe == ("fma", 55.0)
    assert facts.stalls == (("wait", 5.0), ("long_scoreboard", 3.0))
    assert facts.limits == (("registers", 2.0),)
    assert facts.l2 is None


def test_rows_of_the_results_have_names_and_targets(measured_script):
    records = measured_script.records()
    expected = {
        "matmul:f16:NN:2048x2048x2048": 1.02, "matmul:bf16:NT:1760x64x1760": 1.15,
        "matmul:f16:NT:1760x256x1760": 0.95, "matmul:i8:NT:4096x4096x4096": 1.65,
        "matmul:f16:NN:2049x2049x2049": None, "matmul:f32:512": 1.0, "matmul:f32:4096": 0.97,
        "attention:bf16:128:causal:512": 1.02, "attention:bf16:64:full:16384": 1.2,
        "attention:bf16:128:causal:512:4": None, "attention:f8:64:full:512": 0.95,
        "backward:bf16:128:full:8192": 0.95, "nchw:4": 1.0, "nhwc:1by2": 1.0, "single:6": 1.0,
        "shift:3": 1 / 1.05, "shift:3:separate": 1.0, "shift:3:groups": 1 / 1.05,
        "epilogue:sigmoid:256x512x32": 1.1, "quantised:scaled-e4m3:1x8192x8192": 1.0,
        "dyt:16384": 1.0, "softmax:128x65536": 1.2, "softmax:2048x32768:bf16": 1.2,
        "softmax:583x931": 1.05, "group_norm:32x256x4096": 1.0,
    }  # fmt: skip
    assert {name: records[name].target for name in expected} == pytest.approx(expected)
    assert records["sparse:sdd:64:0.9"].target > 7
    backward = records["backward:bf16:128:full:8192"]
    assert [text.split()[0] for text in backward.best] == ["keys", "queries"]
    assert backward.peer in ("cudnn", "flash")


def test_every_row_of_a_workload_has_a_name_of_its_own(measured_script):
    for group in measured_script.WORKLOADS:
        rows = json.loads((measured_script.RESULTS / f"workloads_{group}.json").read_text())["rows"]
        assert len({measured_script.workload(group, row["name"]) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("ratio", "target", "copy", "short"),
    [(0.9, 1.0, None, True), (1.0, 1.0, None, False), (1.1, 1.0, 0.9, True),
     (None, 1.0, None, True), (0.5, None, None, False), (1.0, 1.0, 0.97, False)],
)  # fmt: skip
def test_rows_are_short_of_their_targets_or_of_a_copy(measured_script, ratio, target, copy, short):
    assert measured_script.Record("x", (), None, ratio, target, copy).short is short


def fake(folder, log, *, unknown=(), wait=0, status=0, lines=True):
    """A program that does as `ncu` would, and a folder where it says how it was called."""
    path = folder / "ncu"
    output = 'profiled {"ours": "64x64", "peer": "cuBLAS", "device": {"gpu": "H200"}}'
    path.write_text(f"""#!{sys.executable}
import os, pathlib, sys, time
words = sys.argv[1:]
calls = pathlib.Path({str(folder / "calls")!r})
with calls.open("a") as file:
    print(os.environ.get("CUDA_VISIBLE_DEVICES"), words[-1], file=file)
time.sleep({wait})
metrics = words[words.index("--metrics") + 1]
bad = [name for name in {unknown!r} if name in metrics]
log = pathlib.Path(words[words.index("--log-file") + 1])
if bad:
    lines = ["==ERROR== Failed to find metric regex:^" + name + "(\\\\..*)?$" for name in bad]
    log.write_text("\\n".join(lines))
    sys.exit(1)
log.write_text({log!r})
print("noise")
if {lines}:
    print({output!r})
sys.exit({status})
""")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def command(profiles, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["profiles.py", *map(str, words)])
    return profiles.main()


def test_rows_are_profiled_on_every_gpu_and_kept_with_earlier_ones(
    profiles, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5,6")
    out = tmp_path / "profiles.json"
    out.write_text(json.dumps({"rows": [{"row": "earlier"}, {"row": "nchw:4", "error": "old"}]}))
    names = tmp_path / "names"
    names.write_text("softmax:583x931:f32  # as softmax:583x931\n\nnchw:4\n")
    log = wide(EMPTY, OURS, EMPTY, PEER, PEER)
    program = fake(tmp_path, log)
    words = ("--rows", "matmul:f16:NN:2048x2048x2048", names, "--ncu", program, "--out", out)
    assert command(profiles, monkeypatch, *words, "--gpus", 2) == 0
    rows = {row["row"]: row for row in json.loads(out.read_text())["rows"]}
    assert list(rows)[:2] == ["earlier", "nchw:4"]
    assert set(rows) == {"earlier", "nchw:4", "softmax:583x931", "matmul:f16:NN:2048x2048x2048"}
    row = rows["matmul:f16:NN:2048x2048x2048"]
    assert row["target"] == 1.02 and row["ratio"] < 1.02
    assert row["empty_us"] == pytest.approx(1.216) and row["device"] == {"gpu": "H200"}
    assert row["ours"]["limiter"] == "tensor cores, 82 %"
    assert row["ours"]["us"] == pytest.approx(28.928) and row["ours"]["variant"] == "64x64"
    assert row["peer"]["us"] == pytest.approx(54.0) and len(row["peer"]["kernels"]) == 2
    assert row["peer"]["limiter"].endswith("(50%, the longest of 2 kernels)")
    calls = (tmp_path / "calls").read_text().split()
    assert set(calls[::2]) <= {"2", "5"} and set(calls[1::2]) == set(rows) - {"earlier"}
    assert "64x64 | 28.9 | 132 | 1.00 | 168 | 82 %" in capsys.readouterr().out
    beginning = f"| matmul:f16:NN:2048x2048x2048 | {row['ratio']:.3f}, 1.020 | 64x64"
    assert beginning in profiles.markdown([row])


def test_a_row_that_failed_leaves_what_was_profiled_before(profiles, tmp_path):
    out = tmp_path / "profiles.json"
    profiles.write(out, [{"row": "a", "ours": 1}, {"row": "b", "error": "old"}])
    profiles.write(out, [{"row": "a", "error": "new"}, {"row": "b", "error": "new"}])
    rows = [{"row": "a", "ours": 1}, {"row": "b", "error": "new"}]
    assert json.loads(out.read_text())["rows"] == rows


def test_metrics_that_are_not_known_are_left_out(ncu, tmp_path):
    unknown = set()
    program = fake(tmp_path, wide(EMPTY, OURS), unknown=(ncu.METRICS[0].split(".")[0],))
    profile = ncu.run(program, ["row"], os.environ, 30, unknown)
    assert unknown == {ncu.METRICS[0]} and len(profile.kernels) == 2 and profile.error is None
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_why_a_row_was_not_profiled_is_kept(profiles, monkeypatch, tmp_path, capsys):
    out = tmp_path / "profiles.json"
    program = fake(tmp_path, "==ERROR== ERR_NVGPUCTRPERM - no permission", status=1, lines=False)
    words = ("--rows", "nchw:4", "--ncu", program, "--out", out)
    assert command(profiles, monkeypatch, *words) == 1
    (row,) = json.loads(out.read_text())["rows"]
    assert "exit status 1" in row["error"] and "ERR_NVGPUCTRPERM" in row["error"]
    assert "not profiled" in capsys.readouterr().out


@pytest.mark.parametrize(
    "launched", [(OURS, PEER), (EMPTY, OURS), (EMPTY, EMPTY, PEER), (EMPTY, OURS, EMPTY)]
)
def test_launches_of_both_are_needed(profiles, ncu, launched):
    printed = 'profiled {"ours": "a", "peer": "b", "device": {}}'
    row = profiles.row("x", None, ncu.Outcome(ncu.parse(wide(*launched)), printed, None))
    assert row["error"].startswith("launched, in this order: ")


def test_a_process_that_lasts_too_long_is_ended(ncu, tmp_path):
    profile = ncu.run(fake(tmp_path, "", wait=60), ["row"], os.environ, 1, set())
    assert profile.kernels == [] and "ended after 1 s" in profile.error


def test_a_missing_profiler_is_an_error_of_the_row(ncu, tmp_path):
    profile = ncu.run(str(tmp_path / "none"), ["row"], os.environ, 1, set())
    assert profile.kernels == [] and "No such file" in profile.error


def test_the_documentation_has_what_was_profiled(profiles, measured_script):
    text, path = profiles.DOCS.read_text(), measured_script.RESULTS / "profiles.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    assert profiles.BEGIN in text and profiles.END in text
    assert profiles.with_table(text, rows) == text, "run: python benchmarks/profiles.py --docs"
