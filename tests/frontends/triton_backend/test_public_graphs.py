"""Times of short kernels in graphs, on a device whose time is counted."""

import sys
from types import SimpleNamespace

import pytest

COPY, EMPTY = 2.0, 1.0


class Device:
    """A device with arrays of bytes, on which each replay of a graph enqueues its launches. Nothing
    is computed or copied while it captures."""

    def __init__(self):
        self.us, self.streams, self.captures = 0.0, [], False

    def memory(self, arguments):
        return [a for a in arguments if isinstance(a, bytearray)]

    def copy(self, memory):
        return bytes(memory)

    def assign(self, memory, content):
        if not self.captures:
            memory[:] = content
        self.us += COPY

    def are_equal(self, memory, content):
        return memory == content

    def launch_empty(self):
        self.us += EMPTY

    def check(self):
        pass

    def capture(self, enqueue):
        self.captures = True
        try:
            enqueue(7)
        finally:
            self.captures = False
        return enqueue

    def milliseconds(self, graph):
        result = []
        for _ in range(5):
            self.us = 0.0
            graph(7)
            result.append(self.us / 1e3)
        return result


@pytest.fixture
def graphs(benchmarks):
    return benchmarks("public.graphs")


@pytest.fixture
def device():
    return Device()


def kernel(name="f", ptx="st.global.b8", **metadata):
    return SimpleNamespace(name=name, asm={"ptx": ptx}, metadata=SimpleNamespace(**metadata))


class Array(bytearray):
    """An array of `size` MiB, of which one byte is there."""

    def __init__(self, size):
        super().__init__(1)
        self.size = size

    def __len__(self):
        return self.size << 20


def launch(recorder, compiled, function, *arrays, on_host=lambda: None):
    """Launch `function`, which takes 3 us, as a program does through Triton. Its launcher calls
    `on_host`."""

    def call(x, y, z, stream, function_of_module, *rest):
        recorder.device.us += 3.0
        recorder.device.streams.append(stream)
        on_host()
        if not recorder.device.captures:
            function(*rest)

    recorder.launch(compiled, call, (1, 1, 1, 0, 99, *arrays))


def fill(out):
    out[0] = 5


def increase(array):
    array[0] += 1


def take_first(counter):
    assert counter[0] == 0, "the counter is past the array"
    counter[0] = 1


def test_launches_of_a_call_are_repeated_on_the_stream_of_the_graph(graphs, device):
    recorder = graphs.Recorder({"f": 2}, device)
    for _ in range(2):
        launch(recorder, kernel(), fill, bytearray(4))
    device.streams.clear()
    result = graphs.Graphs(recorder).times()
    assert result == {"us": {"f": [6.0] * 5}, "empty": [EMPTY] * 5, "remarks": {}}
    assert set(device.streams) == {7} and len(device.streams) == 6 * 2 * graphs.MOST_REPETITIONS


def test_a_kernel_that_changes_what_it_reads_finds_it_unchanged(graphs, device):
    array, other = bytearray(b"\1\1"), bytearray(b"\2")
    recorder = graphs.Recorder({"f": 1}, device)
    launch(recorder, kernel(), lambda a, b: increase(a), array, other)
    assert array == b"\2\1", "the program finds the result of one launch"
    assert recorder.launches["f"][0].restored == [(array, b"\1\1")]
    timed = graphs.Graphs(recorder)
    assert timed.times()["us"] == {"f": [pytest.approx(3.0)] * 5}, "without the copies"
    assert array == b"\2\1", "the result of one launch"


@pytest.mark.parametrize("op", ["atom.global.add.u32", "red.relaxed.gpu.global.add.u32"])
def test_a_kernel_with_atomics_is_launched_once_by_the_program(graphs, device, op):
    counter = bytearray(1)
    recorder = graphs.Recorder({"f": 1}, device)
    launch(recorder, kernel(ptx=f"{op} %r1, [%rd1], 1;"), take_first, counter)
    assert counter == b"\1" and device.streams == [0]
    assert graphs.Graphs(recorder).times()["us"] == {"f": [pytest.approx(3.0)] * 5}


def test_a_kernel_finds_the_results_of_one_that_is_restored(graphs, device):
    """The restored content of a result is that of memory in which nothing was stored."""
    count, position, table = bytearray(1), bytearray(b"\xff"), bytearray(4)

    def rank(count, position):
        position[0] = count[0]
        count[0] += 1

    def scatter(position, table):
        table[position[0]] = 1

    recorder = graphs.Recorder({"rank": 1, "scatter": 1}, device)
    launch(recorder, kernel("rank", "atom.add"), rank, count, position)
    launch(recorder, kernel("scatter"), scatter, position, table)
    timed = graphs.Graphs(recorder)
    assert [list(timed.times()["us"]) for _ in range(2)] == [["rank", "scatter"]] * 2
    assert position == b"\0"


def test_kernels_without_atomics_need_no_copies(graphs, device):
    recorder = graphs.Recorder({"f": 1}, device)
    launch(recorder, kernel(ptx="redux.sync.add.s32 %r1, %r2, -1;"), fill, bytearray(4))
    assert recorder.launches["f"][0].restored == []


def test_only_the_expected_kernels_are_kept(graphs, device):
    recorder = graphs.Recorder({"f": 1}, device)
    launch(recorder, kernel("g"), fill, bytearray(1))
    assert recorder.launches == {"f": []} and device.streams == [0]


@pytest.mark.parametrize(
    ("compiled", "expected", "size", "remark"),
    [
        (kernel(launch_pdl=True), 1, 1, "it overlaps with the kernel before it"),
        (kernel(launch_pdl=False), 101, 1, "101 launches"),
        (kernel(launch_pdl=False), 2, 1, "1 of 2 launches were seen"),
        (kernel(), 1, 3 << 10, "arguments of 3.0 GiB"),
        (kernel(ptx="atom.add"), 1, 10, "it changes 10.0 MiB of its arguments"),
    ],
)
def test_what_a_graph_cannot_repeat_has_a_remark(
    graphs, device, monkeypatch, compiled, expected, size, remark
):
    monkeypatch.setattr(graphs, "MOST_COMPARED", 2 << 30)
    monkeypatch.setattr(graphs, "MOST_RESTORED", 1 << 20)
    recorder = graphs.Recorder({"f": expected}, device)
    launch(recorder, compiled, fill, Array(size))
    assert device.streams, "the program's launch takes place"
    result = graphs.Graphs(recorder).times()
    assert result["us"] == {} and result["remarks"] == {"f": remark}


def test_a_capture_that_fails_is_a_remark(graphs, device):
    def synchronize():
        if device.captures:
            raise RuntimeError("not while a stream captures")

    recorder = graphs.Recorder({"f": 1, "g": 1}, device)
    launch(recorder, kernel("f"), fill, bytearray(1), on_host=synchronize)
    launch(recorder, kernel("g"), fill, bytearray(1))
    result = graphs.Graphs(recorder).times()
    assert result["remarks"] == {"f": "RuntimeError: not while a stream captures"}
    assert list(result["us"]) == ["g"]


def test_a_graph_has_a_limited_number_of_nodes(graphs, device):
    recorder = graphs.Recorder({"f": 100}, device)
    for _ in range(100):
        launch(recorder, kernel(), fill, bytearray(1))
    device.streams.clear()
    graphs.Graphs(recorder)
    assert len(device.streams) == graphs.MOST_NODES


@pytest.fixture
def worker(benchmarks, monkeypatch):
    monkeypatch.syspath_prepend(str(benchmarks("triton_suite").HERE / "public"))
    yield benchmarks("public.worker")
    for name in ("graphs", "public.worker"):
        del sys.modules[name]


def test_a_program_runs_once_for_all_times_and_is_released(worker, device, monkeypatch):
    monkeypatch.setattr(worker.graphs, "Cuda", lambda asleep: device)
    launched = object.__new__(worker.Launched)
    launched.watching, launched.recorder = False, None
    own = launched.notes_launches(kernel(), lambda *_: setattr(device, "us", device.us + 3.0))
    runs = []

    def run():
        runs.append(own(1, 1, 1, 0, 99, bytearray(1)))

    short = worker.ShortKernels(launched)
    short.keep(SimpleNamespace(run=run), row(f=2.0, g=20.0)["kernels"])
    assert [short.times()["us"] for _ in range(2)] == [{"f": [pytest.approx(3.0)] * 5}] * 2
    assert len(runs) == 1 and short.step is None and launched.recorder is None


def test_a_process_without_a_case_times_nothing(worker):
    with pytest.raises(LookupError, match="no case"):
        worker.ShortKernels(None).times()


def row(**us):
    kernels = [
        {"kernel": name, "us": x, "iqr_us": 0.1, "launches": 1, "registers": 32}
        for name, x in us.items()
    ]
    return {"case": "a", "kernels": kernels}


def answer(us, empty=1.0, remarks=None):
    return {"us": us, "empty": [empty], "remarks": remarks or {}}


def test_processes_alternate_and_all_their_times_count(graphs):
    requests = []
    given = {"triton": iter([2.0, 2.1, 9.0, 2.2, 2.3, 2.4]), "tileir": iter([3.0] * 6)}

    def ask(compiler):
        requests.append(compiler)
        return answer({"f": [next(given[compiler])]})

    rows = graphs.alternating({"triton": row(f=4.0, h=20.0), "tileir": row(f=5.0, h=19.0)}, ask)
    assert requests[:6] == ["triton", "tileir", "tileir", "triton", "triton", "tileir"]
    assert len(requests) == 2 * graphs.ALTERNATIONS
    first, second = rows["triton"]["kernels"]
    assert first["us"] == pytest.approx(2.25) and first["cold_us"] == 4.0
    assert first["alternations_us"] == [2.2, 2.4]
    assert first["clock"] == "graph" and first["iqr_us"] == pytest.approx(0.25)
    assert second == row(h=20.0)["kernels"][0]
    assert rows["tileir"]["kernels"][0]["us"] == 3.0 and rows["tileir"]["empty_us"] == 1.0


def test_compilers_have_the_same_clock(graphs):
    """A kernel that is short by one compiler, or that one cannot time in a graph, or whose time is
    that of no kernel, has the times after a write."""
    rows = {"triton": row(f=9.0, g=2.0, h=3.0), "tileir": row(f=11.0, g=2.0, h=3.0)}
    answers = {
        "triton": answer({"f": [8.0], "g": [1.5], "h": [0.4]}),
        "tileir": answer({"h": [2.0]}, remarks={"g": "RuntimeError: no"}),
    }
    result = graphs.alternating(rows, answers.__getitem__)
    for compiler in rows:
        f, g, h = result[compiler]["kernels"]
        assert f == rows[compiler]["kernels"][0]
        assert g == {**rows[compiler]["kernels"][1], "remark": "tileir: RuntimeError: no"}
        assert h == {**rows[compiler]["kernels"][2], "remark": "not timed"}


def test_a_process_that_ends_gets_no_more_requests(graphs):
    requests = []

    def ask(compiler):
        requests.append(compiler)
        return answer({"f": [1.0]}) if compiler == "triton" else {"error": "it crashed"}

    result = graphs.alternating({"triton": row(f=2.0), "tileir": row(f=2.0)}, ask)
    assert requests == ["triton", "tileir"]
    remark = {**row(f=2.0)["kernels"][0], "remark": "tileir: it crashed"}
    assert all(result[c]["kernels"] == [remark] for c in result)


@pytest.mark.parametrize("second", [row(f=20.0), {"case": "a", "error": "over 25 s"}])
def test_nothing_is_requested_without_short_kernels(graphs, second):
    rows = {"triton": row(f=2.0), "tileir": second}
    assert graphs.alternating(rows, lambda _: pytest.fail("requested")) is rows


def test_a_kernel_is_short_by_the_mean_of_its_launches(graphs):
    kernels = [{"us": us, "launches": count} for us, count in ((9.9, 1), (30, 4), (30, 3), (5, 0))]
    assert [graphs.is_short(k) for k in kernels] == [True, True, False, False]


def test_the_spread_is_the_range_of_the_middle_half(graphs):
    assert graphs.spread([1, 2, 3, 4, 100]) == 2
    assert graphs.spread([5.0]) == graphs.spread([]) == 0


def test_rows_tell_their_clock_and_spread(benchmarks):
    clock = benchmarks("public.report").clock
    ours, theirs = {"us": 2.0, "iqr_us": 0.06}, {"us": 1.0, "iqr_us": 0.04}
    assert clock({"us": 2.0}, {"us": 1.0}) == {}, "a row of an earlier run"
    assert clock(ours, theirs) == {"spread": 0.025}
    times = {"clock": "graph", "cold_us": 4.0}
    assert clock({**ours, **times}, {**theirs, **times, "cold_us": 3.0}) == {
        "spread": 0.025, "clock": "graph", "triton_cold_us": 3.0, "tileir_cold_us": 4.0,
    }  # fmt: skip
    assert clock({**ours, "remark": "no"}, theirs)["remark"] == "no"
