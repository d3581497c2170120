"""Times of short kernels, launched many times by a CUDA graph.

Two processes of equal code differ by up to 30 % in the time of a kernel of 1 to 5 us that is
launched alone. A graph launches it many times, one launch after the other, with the same arguments:
the time of the graph by the number of launches is that of a kernel and of its start after the one
before. Its data are in the L2 cache, as far as they fit. The processes of the compilers alternate.

A launch is repeated on what it found when the program launched it, unless it computes the same from
its own results. For that the graph copies what the kernel changes back before each launch, and the
time of a graph that only copies is subtracted.

Nothing here imports torch before a `Cuda` is made.
"""
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

TIME_GRAPHS = "graphs"
"""What a process reads instead of the name of a case, to time the short kernels of the last one."""
ALTERNATIONS, REPLAYS = 6, 5
"""How often each process times its graphs, and the replays of a graph each time."""
SHORT = 10
"""Microseconds of a kernel whose time varies with the launch."""
MOST_REPETITIONS, MOST_NODES = 100, 2000
"""The repetitions of the launches of a kernel in a graph, and the nodes of a graph, at most."""
MOST_LAUNCHES = 100
"""Launches of a kernel in a call. The times of more launches are a mean already."""
MOST_COMPARED, MOST_RESTORED = 4 << 30, 16 << 20
"""Bytes of the arguments of a launch, and of what a graph copies back for all of a kernel."""
STREAM = 3
"""The place of the stream among the arguments of a launcher of Triton."""

_ATOMIC = re.compile(r"\b(atom|red|cp\.reduce)\.")


def is_short(kernel: Mapping[str, Any]) -> bool:
    """Whether the launches of a kernel, a row of a case, are short."""
    return kernel["launches"] > 0 and kernel["us"] / kernel["launches"] < SHORT


def spread(values: Sequence[float]) -> float:
    """The range of the middle half of `values`."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


class Launch(NamedTuple):
    """A call of Triton's launcher, and the memory that it must find unchanged, each with its
    content."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    restored: list[tuple[Any, Any]]

    def enqueue(self, stream: int) -> None:
        self.call(*self.arguments[:STREAM], stream, *self.arguments[STREAM + 1 :])


class Recorder:
    """Keeps the launches of kernels while a program runs, and the reasons why those of a kernel
    cannot be repeated, by name. `expected` has the number of launches of each kernel."""

    def __init__(self, expected: Mapping[str, int], device: Any) -> None:
        self.expected = dict(expected)
        self.launches: dict[str, list[Launch]] = {name: [] for name in expected}
        self.remarks: dict[str, str] = {}
        self.device = device

    def launch(self, kernel: Any, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Launch `kernel` for the program, and keep the launch."""
        name = kernel.name
        if name not in self.launches or name in self.remarks:
            call(*arguments)
            return
        memory = self.device.memory(arguments)
        remark = self._remark(kernel, memory)
        if remark:
            self._leave_out(name, remark)
            call(*arguments)
            return
        before = [self.device.copy(m) for m in memory]
        call(*arguments)
        kept = self._find_changes(memory, before)
        # With atomics, it may count: another launch would leave its arrays.
        if kept and not _ATOMIC.search(kernel.asm["ptx"]):
            changes = self._change_of_another(call, arguments, [m for m, _ in kept])
            kept = [(m, content) for (m, content), x in zip(kept, changes, strict=True) if x]
        self.launches[name].append(Launch(call, arguments, kept))
        size = sum(len(m) for one in self.launches[name] for m, _ in one.restored)
        if size > MOST_RESTORED:
            self._leave_out(name, f"it changes {size / 2**20:.1f} MiB of its arguments")

    def _remark(self, kernel: Any, memory: list[Any]) -> str:
        """Why a launch cannot be repeated; empty if it can."""
        if getattr(kernel.metadata, "launch_pdl", False):
            return "it overlaps with the kernel before it"
        if self.expected[kernel.name] > MOST_LAUNCHES:
            return f"{self.expected[kernel.name]} launches"
        size = sum(map(len, memory))
        return f"arguments of {size / 2**30:.1f} GiB" if size > MOST_COMPARED else ""

    def _leave_out(self, name: str, remark: str) -> None:
        self.remarks[name] = remark
        self.launches[name] = []

    def _find_changes(self, memory: list[Any], before: list[Any]) -> list[tuple[Any, Any]]:
        pairs = zip(memory, before, strict=True)
        return [(m, b) for m, b in pairs if not self.device.are_equal(m, b)]

    def _change_of_another(self, call, arguments, written: list[Any]) -> list[bool]:
        """For each `written` memory, whether another launch changes it. The program finds it as the
        first launch left it."""
        after = [self.device.copy(m) for m in written]
        call(*arguments)
        result = [not self.device.are_equal(m, a) for m, a in zip(written, after, strict=True)]
        for m, a in zip(written, after, strict=True):
            self.device.assign(m, a)
        return result


class Graphs:
    """Graphs of the launches of kernels, and the reasons why there is none, by name."""

    def __init__(self, recorded: Recorder) -> None:
        self.device, self.remarks = recorded.device, dict(recorded.remarks)
        self.graphs: dict[str, tuple[Any, Any, int]] = {}
        """The graph, the one that only copies if it copies, and its repetitions."""
        self.empty = self.device.capture(
            lambda _: [self.device.launch_empty() for _ in range(MOST_REPETITIONS)]
        )
        for name, launches in recorded.launches.items():
            if name in self.remarks:
                continue
            if len(launches) != recorded.expected[name]:
                seen = f"{len(launches)} of {recorded.expected[name]}"
                self.remarks[name] = f"{seen} launches were seen"
                continue
            try:
                self.graphs[name] = self._graphs(launches)
            except Exception as error:
                self.device.check()
                self.remarks[name] = f"{type(error).__name__}: {error}"[:200]

    def _graphs(self, launches: list[Launch]) -> tuple[Any, Any, int]:
        nodes = sum(1 + len(x.restored) for x in launches)
        count = max(1, min(MOST_REPETITIONS, MOST_NODES // nodes))

        def enqueue(stream: int, with_kernels: bool = True) -> None:
            for _ in range(count):
                for launch in launches:
                    for memory, content in launch.restored:
                        self.device.assign(memory, content)
                    if with_kernels:
                        launch.enqueue(stream)

        copies = any(x.restored for x in launches)
        both = self.device.capture(enqueue)
        return both, self.device.capture(lambda s: enqueue(s, False)) if copies else None, count

    def times(self) -> dict[str, Any]:
        """Microseconds of the launches of each kernel in a call, several times; the same of an
        empty kernel; and the reasons why some have none."""
        empty = [ms * 1e3 / MOST_REPETITIONS for ms in self.device.milliseconds(self.empty)]
        us = {name: self._times(*graphs) for name, graphs in self.graphs.items()}
        return {"us": us, "empty": empty, "remarks": self.remarks}

    def _times(self, graph: Any, copying: Any, count: int) -> list[float]:
        """The graph with kernels comes last, so that other kernels find their results."""
        copies = [0.0] * REPLAYS if copying is None else self.device.milliseconds(copying)
        both = self.device.milliseconds(graph)
        return [(a - b) * 1e3 / count for a, b in zip(both, copies, strict=True)]


class Cuda:
    """The current GPU."""

    def __init__(self, asleep: int) -> None:
        """`asleep` cycles are longer than the launch of a graph."""
        import torch  # type: ignore[import-not-found]

        self.torch, self.asleep = torch, asleep
        self.launch_empty()  # loads the kernel, which a graph cannot

    def memory(self, arguments: Sequence[Any]) -> list[Any]:
        """The bytes of the storages of the tensors among `arguments`, each once."""
        storages = {}
        for tensor in self._tensors(arguments):
            storage = tensor.untyped_storage()
            if storage.nbytes():
                storages.setdefault(storage.data_ptr(), (tensor.device, storage))
        return [
            self.torch.empty(0, dtype=self.torch.uint8, device=device).set_(storage)
            for device, storage in storages.values()
        ]

    def _tensors(self, values: Sequence[Any]):
        for value in values:
            base = getattr(value, "base", value)  # of a descriptor, and of a view as another type
            if isinstance(base, self.torch.Tensor):
                if base.is_cuda:
                    yield base
            elif isinstance(value, (tuple, list)):
                yield from self._tensors(value)

    def copy(self, memory: Any) -> Any:
        return memory.clone()

    def assign(self, memory: Any, content: Any) -> None:
        with self.torch.inference_mode():  # the only one in which all tensors may be changed
            memory.copy_(content)

    def are_equal(self, memory: Any, content: Any) -> bool:
        return self.torch.equal(memory, content)

    def launch_empty(self) -> None:
        """Launch a kernel that does nothing."""
        self.torch.cuda._sleep(0)

    def check(self) -> None:
        """Raise an error if the GPU has stopped working for this process."""
        self.torch.cuda.synchronize()

    def capture(self, enqueue: Callable[[int], Any]) -> Any:
        """A graph of what `enqueue` launches on the stream that it is given."""
        torch = self.torch
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                enqueue(stream.cuda_stream)
            finally:
                graph.capture_end()
        return graph

    def milliseconds(self, graph: Any) -> list[float]:
        """Milliseconds of some replays of a graph, after one that brings its data to the cache. The
        GPU sleeps while the processor launches the graph."""
        event = self.torch.cuda.Event
        pairs = [[event(enable_timing=True) for _ in "se"] for _ in range(REPLAYS)]
        graph.replay()
        for start, end in pairs:
            self.torch.cuda._sleep(self.asleep)
            start.record()
            graph.replay()
            end.record()
        self.torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in pairs]


def with_graph_times(
    rows: dict[str, dict[str, Any]], answers: dict[str, list[dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """The rows of a case by all compilers, with the times of graphs in place of those of single
    launches, for the kernels that all compilers have timed so. `answers` are all results of
    `Graphs.times`, or the errors. The others of the kernels that are short by all
    compilers have the reason as `remark`."""
    failed = [f"{c}: {a['error']}" for c, every in answers.items() for a in every if "error" in a]
    samples = {c: _join([a["us"] for a in x if "us" in a]) for c, x in answers.items()}
    empty = {c: [us for a in x for us in a.get("empty", [])] for c, x in answers.items()}
    timed = (
        set()
        if failed
        else set.intersection(*(_plausible(rows[c], samples[c], empty[c]) for c in rows))
    )
    short = _short_by_all(rows)
    remarks = {
        name: f"{c}: {text}"
        for c, every in answers.items() for a in every
        for name, text in a.get("remarks", {}).items()
    }  # fmt: skip

    def timed_kernel(kernel: dict[str, Any], us: dict[str, list[float]]) -> dict[str, Any]:
        name = kernel["kernel"]
        if name in timed:
            return {
                **kernel, "us": round(statistics.median(us[name]), 3), "clock": "graph",
                "iqr_us": round(spread(us[name]), 3), "cold_us": kernel["us"],
                "alternations_us": [
                    round(statistics.median(us[name][i : i + REPLAYS]), 3)
                    for i in range(0, len(us[name]), REPLAYS)
                ],
            }  # fmt: skip
        if name in short:
            return {**kernel, "remark": (failed or [remarks.get(name, "not timed")])[0]}
        return kernel

    result = {}
    for c, row in rows.items():
        kernels = [timed_kernel(kernel, samples[c]) for kernel in row["kernels"]]
        own = {"empty_us": round(statistics.median(empty[c]), 3)} if timed else {}
        result[c] = {**row, **own, "kernels": kernels}
    return result


def alternating(
    rows: dict[str, dict[str, Any]], ask: Callable[[str], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """`rows` with the times of graphs, for which the compilers' processes are asked in the
    order first, second, second, first, and so on."""
    if any("error" in row for row in rows.values()) or not _short_by_all(rows):
        return rows
    answers: dict[str, list[dict[str, Any]]] = {c: [] for c in rows}
    for number in range(ALTERNATIONS):
        for c in list(rows) if number % 2 == 0 else list(reversed(rows)):
            answers[c].append(ask(c))
            if "error" in answers[c][-1]:
                return with_graph_times(rows, answers)
    return with_graph_times(rows, answers)


def _short_by_all(rows: dict[str, dict[str, Any]]) -> set[str]:
    """The kernels that are short by all compilers."""
    return set.intersection(
        *({k["kernel"] for k in row["kernels"] if is_short(k)} for row in rows.values())
    )


def _plausible(
    row: dict[str, Any], samples: dict[str, list[float]], empty: list[float]
) -> set[str]:
    """The kernels that take at least half as long as empty ones. The time of another one is no more
    than the uncertainty of what was subtracted from it."""
    least = {k["kernel"]: k["launches"] * statistics.median(empty) / 2 for k in row["kernels"]}
    return {name for name, us in samples.items() if statistics.median(us) >= least[name]}


def _join(parts: list[dict[str, list[float]]]) -> dict[str, list[float]]:
    """The times of all `parts`, by name."""
    return {name: [us for one in parts for us in one[name]] for name in (parts or [{}])[0]}
