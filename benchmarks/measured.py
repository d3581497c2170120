"""The rows of the results in `benchmarks/results`, by name.

matmul:KIND:NN|NT:MxNxK              matmul_shapes*.json
matmul:f32:SIZE                      matmul.json, without tensor cores
attention:KIND:D:full|causal:T[:G]   attention*.json; G heads of queries to one of keys
backward:KIND:D:full|causal:T[:G]    attention_backward.json
nhwc:TASK, nchw:TASK, single:TASK    workloads_*.json; `3by2`: task 3 with strides of 2
shift:TASK[:separate|groups]         against the matmul alone; against a shift and a matmul;
                                     groups of channels share a shift
sparse:sdd|dsd|dds|softmax:BLOCK:SHARE OF ZEROS
epilogue:KIND:MxNxK, quantised:KIND:MxNxK
KERNEL:SHAPE[:bf16]                  memory.json: `dyt:16384`, `softmax:8192x4096:bf16`
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import targets

RESULTS = Path(__file__).parent / "results"
Row: TypeAlias = dict[str, Any]


class Record(NamedTuple):
    """A row of results: the best variant of tileir (one per kernel if there are several), the
    fastest peer, the `ratio` of the peer's time to that of tileir, its `target`, and the share of a
    copy's bandwidth if there is a target for that."""

    name: str
    best: tuple[str, ...]
    peer: str | None
    ratio: float | None
    target: float | None
    of_copy: float | None = None

    @property
    def short(self) -> bool:
        """Whether the row is below its target."""
        if self.of_copy is not None and self.of_copy < targets.OF_COPY:
            return True
        return self.target is not None and (self.ratio or 0.0) < self.target

    @property
    def distance(self) -> float:
        """The ratio relative to its target; the smallest one is farthest below its target."""
        return (self.ratio or 0.0) / self.target if self.target else 1.0


def records(folder: Path = RESULTS) -> dict[str, Record]:
    """Every row by name. Of rows with the same name, the first one counts."""
    by_name: dict[str, Record] = {}
    for file, read in SOURCES.items():
        path = folder / f"{file}.json"
        if path.exists():
            content = json.loads(path.read_text())
            for record in read(content.get("rows", content.get("lines"))):
                by_name.setdefault(record.name, record)
    return by_name


def _matmuls(rows: list[Row]) -> Iterator[Record]:
    for row in rows:
        name = ":".join(("matmul", *row["problem"].split(), "x".join(map(str, row["size"]))))
        yield _record(name, row["best"], "cublas", row["ratio"])


def _singles(rows: list[Row]) -> Iterator[Record]:
    for row in rows:
        if row["type"] == "f32":
            best = row["best"]["tileir"][0].removeprefix("tileir ")
            name = f"matmul:f32:{row['size']}"
            yield _record(name, best, "cublas", row["ratio_cublas"])


def _attention(rows: list[Row], what: str = "attention") -> Iterator[Record]:
    for row in rows:
        way = "causal" if row["causal"] else "full"
        group = f":{row['group']}" if row["group"] > 1 else ""
        name = f"{what}:{row['kind']}:{row['d']}:{way}:{row['t']}{group}"
        peers = {n: us for n, us in row["us"].items() if n in ("cudnn", "flash")}
        best = row["chosen"] if what == "backward" else row["best"]
        yield _record(name, best, min(peers, key=peers.__getitem__, default=None), row["ratio"])


def _memory(rows: list[Row]) -> Iterator[Record]:
    for row in rows:
        name = memory(row["name"], row["shape"], row["dtype"])
        result = _record(name, row["best"], row["peer"], row["ratio_best"])
        square = row["shape"] == [16384, 16384]
        yield result._replace(of_copy=row["of_copy"] if square else None)


def _workloads(group: str) -> Callable[[list[Row]], Iterator[Record]]:
    def read(rows: list[Row]) -> Iterator[Record]:
        for row in rows:
            result = _record(workload(group, row["name"]), row["best"], row["peer"], row["ratio"])
            yield result._replace(target=row["target"])

    return read


def _record(name: str, best: Any, peer: str | None, ratio: float | None) -> Record:
    variants = (best,) if isinstance(best, str) else tuple(x for x in best or () if x)
    return Record(name, variants, peer, ratio, targets.target(name))


def memory(name: str, shape: list[int] | tuple[int, ...], dtype: str) -> str:
    """The name of a line of `memory.py`."""
    first, *sizes = shape
    extents = str(first) if sizes == [first] else "x".join(map(str, shape))
    return f"{name}:{extents}{':bf16' if dtype == 'bfloat16' else ''}"


def workload(group: str, name: str) -> str:
    """The name of a case of `workloads.py`."""
    if group in ("nhwc", "nchw", "single"):
        return f"{group}:{name.split(' task ')[1].replace(' by ', 'by')}"
    if group == "shift":
        task = re.search(r"task (\d+)", name)
        kind = ":groups" if "groups" in name else "" if "alone" in name else ":separate"
        return f"shift:{task[1] if task else name}{kind}"
    if group == "sparse":
        kind, size, zeros = name.split()
        return f"sparse:{kind}:{size}:{int(zeros.rstrip('%')) / 100:g}"
    *kinds, size = name.split()
    return f"{group}:{'-'.join(kinds)}:{size}"


WORKLOADS = ("nhwc", "nchw", "single", "shift", "sparse", "quantised", "epilogue")
_SHAPES = ("matmul_shapes", "matmul_shapes_bf16", "matmul_shapes_others", "matmul_shapes_odd")
SOURCES: dict[str, Callable[[list[Row]], Iterator[Record]]] = {
    **dict.fromkeys(_SHAPES, _matmuls),
    "matmul": _singles,
    **dict.fromkeys(("attention", "attention_f16", "attention_f8", "attention_group"), _attention),
    "attention_backward": lambda rows: _attention(rows, "backward"),
    "memory": _memory,
    **{f"workloads_{group}": _workloads(group) for group in WORKLOADS},
}
"""Files of results, and what reads them."""
