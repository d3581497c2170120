"""Profiles of benchmark rows: the limiters of tileir and of the fastest peer, side by side, by
Nsight Compute.

    python benchmarks/profiles.py --rows ROW ... | --short [--most 40] [--only TEXT] [--gpus 4]
    python benchmarks/profiles.py --list | --show | --docs

A ROW is named as in `measured.py`, or is a file with one such name per line. `--short` selects all
rows whose committed results are below their targets, the farthest below first. Each row is profiled
in a process of its own, on `--gpus` GPUs at once; rows that are already in `--out` stay there.
`--list` prints rows and their ratios, `--show` prints the profiles, `--docs` writes them to
docs/reference/profiles.md. The variant of tileir is the best of the committed results.

The profiler empties the caches before every kernel and times kernels alone. Gaps between the
kernels of one call are not counted, so times differ from those of the benchmarks. `ratio` is that
of the benchmarks.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import queue
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # the folder, also under `python -P`

import measured
import ncu
import tables
from limiters import Facts, facts, limiter, stall

DOCS = tables.HERE.parent / "docs" / "reference" / "profiles.md"
EMPTY = "spin_kernel"
"""In the name of the empty kernel before each of the two calls."""
MARKED = "profiled "
"""The prefix of the line with which a row's process reports its call."""
BEGIN, END = "<!-- profiles: python benchmarks/profiles.py --docs -->", "<!-- end of profiles -->"
HEADINGS = (
    "row", "ratio, target", "", "us", "grid", "waves", "registers", "tensor", "DRAM", "L2", "issue",
    "stalls", "limited by",
)  # fmt: skip


# One row ------------------------------------------------------------------------------------------


def row(name: str, record: measured.Record | None, outcome: ncu.Outcome) -> dict[str, Any]:
    """The profile of a row, or the reason why there is none."""
    result: dict[str, Any] = {"row": name}
    if record:
        result |= {"ratio": record.ratio, "target": record.target}
    marked = [line for line in outcome.printed.splitlines() if line.startswith(MARKED)]
    sides = parts(outcome.kernels)
    if not marked or len(sides) != 2 or not all(sides):
        launched = [kernel.name for kernel in outcome.kernels]
        return {**result, "error": outcome.error or f"launched, in this order: {launched}"}
    if outcome.error:
        result["complaint"] = outcome.error
    what = json.loads(marked[-1].removeprefix(MARKED))
    times = [facts(k.metrics).us for k in outcome.kernels if EMPTY in k.name]
    empty = min((us for us in times if us is not None), default=None)
    ours, peer = (
        side(what[owner], kernels, empty)
        for owner, kernels in zip(("ours", "peer"), sides, strict=True)
    )
    return {**result, "device": what["device"], "empty_us": empty, "ours": ours, "peer": peer}


def parts(kernels: list[ncu.Kernel]) -> list[list[ncu.Kernel]]:
    """The kernels after each empty kernel, up to the next one."""
    sides: list[list[ncu.Kernel]] = []
    for kernel in kernels:
        if EMPTY in kernel.name:
            sides.append([])
        elif sides:
            sides[-1].append(kernel)
    return sides


def side(variant: str, kernels: list[ncu.Kernel], empty: float | None) -> dict[str, Any]:
    """The launches of one call, and what limits the longest of them."""
    every: list[dict[str, Any]] = []
    for kernel in kernels:
        metrics = facts(kernel.metrics)
        every.append({"name": kernel.name, **metrics._asdict(), "limiter": limiter(metrics, empty)})
    total = sum(each["us"] or 0.0 for each in every)
    longest = max(every, key=lambda each: each["us"] or 0.0)
    share = (longest["us"] or 0.0) / total if total else 1.0
    text = longest["limiter"]
    text += f" ({share:.0%}, the longest of {len(every)} kernels)" if len(every) > 1 else ""
    return {"variant": variant, "us": total, "limiter": text, "kernels": every}


# Many rows ----------------------------------------------------------------------------------------


def profile_all(
    names: list[str], options: argparse.Namespace, gpus: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield rows in the order in which they are complete. No row is started after `--budget`
    seconds."""
    records, end = measured.records(), time.monotonic() + options.budget
    free: queue.Queue[str] = queue.Queue()
    for gpu in gpus:
        free.put(gpu)
    unknown: set[str] = set()
    done: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def one(name: str) -> None:
        gpu = free.get()
        try:
            if (begun := time.monotonic()) < end:
                result = row(name, records.get(name), _run(name, gpu, options, unknown))
                done.put({**result, "seconds": round(time.monotonic() - begun, 1)})
        except Exception as error:
            done.put({"row": name, "error": f"{type(error).__name__}: {error}"})
        finally:
            free.put(gpu)

    def every() -> None:
        with ThreadPoolExecutor(len(gpus)) as pool:
            list(pool.map(one, names))
        done.put(None)

    threading.Thread(target=every, daemon=True).start()
    while (result := done.get()) is not None:
        yield result


def _run(name: str, gpu: str, options: argparse.Namespace, unknown: set[str]) -> ncu.Outcome:
    cache = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    environment = {
        "TORCHINDUCTOR_CACHE_DIR": str(cache), **os.environ, "CUDA_VISIBLE_DEVICES": gpu,
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }  # fmt: skip
    program = [sys.executable, "-P", __file__, "--one", name]
    return ncu.run(options.ncu, program, environment, options.seconds, unknown)


def visible(count: int | None) -> list[str]:
    """The first `count` GPUs of those that the environment makes visible."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    every = [gpu for gpu in shown.split(",") if gpu] or [str(i) for i in range(count or 1)]
    return every[: count or len(every)]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Merge `rows` into the file `path` by name. A row that failed does not replace one that was
    profiled before."""
    old = json.loads(path.read_text())["rows"] if path.exists() else []
    every = {each["row"]: each for each in old}
    for each in rows:
        if "error" not in each or "error" in every.get(each["row"], each):
            every[each["row"]] = each
    path.write_text(json.dumps({"rows": [*every.values()]}, indent=1) + "\n")


# What is shown ------------------------------------------------------------------------------------


def lines(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Two lines of the table, that of tileir and that of the peer; or one line with the end of an
    error message."""
    ratio, target = (_figure(result.get(key), "", "{:.3f}") for key in ("ratio", "target"))
    head = (result["row"], f"{ratio}, {target}" if target else ratio)
    if "error" in result:
        last = (result["error"].strip().splitlines() or ["failed"])[-1]
        return [(*head, "", *("",) * (len(HEADINGS) - 4), f"not profiled: {last[:80]}")]
    ours, peer = (_line(result[side]) for side in ("ours", "peer"))
    return [(*head, *ours), ("", "", *peer)]


def _line(side: dict[str, Any]) -> tuple[str, ...]:
    longest = max(side["kernels"], key=lambda each: each["us"] or 0.0)
    of = Facts(**{key: longest[key] for key in Facts._fields if key in longest})
    stalls = ", ".join(f"{stall(reason).split(' (')[0]} {x:.1f}" for reason, x in of.stalls[:2])
    return (
        side["variant"], _figure(side["us"], "", "{:.1f}"), _figure(of.grid),
        _figure(of.waves, "", "{:.2f}"), _figure(of.registers), _figure(of.tensor, " %"),
        _figure(of.dram, " %"), _figure(of.l2, " %"), _figure(of.issue, " %"), stalls,
        side["limiter"],
    )  # fmt: skip


def _figure(value: float | None, unit: str = "", form: str = "{:.0f}") -> str:
    return "" if value is None else form.format(value) + unit


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table of docs/reference/profiles.md."""
    return tables.markdown([HEADINGS, *(line for each in rows for line in lines(each))])


def with_table(text: str, rows: list[dict[str, Any]]) -> str:
    """`text` with the table of `rows` between its marks, which is empty if there are no rows."""
    return tables.replace_between(text, BEGIN, END, markdown(rows) if rows else "")


def show(result: dict[str, Any]) -> None:
    """Print the lines of a row."""
    for line in lines(result):
        print(" | ".join(line), flush=True)


# The command --------------------------------------------------------------------------------------


def requested_rows(options: argparse.Namespace) -> list[str]:
    """The requested rows whose names contain the text of `--only`."""
    records = measured.records()
    names = [name for text in options.rows for name in _names(text)]
    if options.short or (options.list and not names):
        rows = [record for record in records.values() if record.short or not options.short]
        names += [record.name for record in sorted(rows, key=lambda record: record.distance)]
    names = [name for name in dict.fromkeys(names) if options.only in name]
    return names[: options.most]


def _names(text: str) -> list[str]:
    """A row, or the rows that a file lists."""
    path = Path(text)
    if not path.is_file():
        return [text.removesuffix(":f32")]
    words = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [word.removesuffix(":f32") for word in words if word]


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", nargs="+", default=[], help="names, or files of names")
    parser.add_argument("--short", action="store_true", help="rows below their targets")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--most", type=int, help="only so many rows")
    parser.add_argument("--gpus", type=int, help="only so many GPUs, at once")
    parser.add_argument("--seconds", type=float, default=120, help="for a row, at most")
    parser.add_argument("--budget", type=float, default=420, help="after which no row begins")
    parser.add_argument("--out", type=Path, default=measured.RESULTS / "profiles.json")
    parser.add_argument("--ncu", default=shutil.which("ncu") or "/usr/local/cuda/bin/ncu")
    parser.add_argument("--list", action="store_true", help="name the rows, do nothing else")
    parser.add_argument("--show", action="store_true", help="print what --out has")
    parser.add_argument("--docs", action="store_true", help="write docs/reference/profiles.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Profile and print. Returns 1 if a row could not be profiled."""
    options = arguments().parse_args()
    if options.one:
        import profile_rows

        print(MARKED + json.dumps(profile_rows.profile(options.one)), flush=True)
        return 0
    if options.show or options.docs:
        rows = json.loads(options.out.read_text())["rows"]
        for each in rows if options.show else ():
            show(each)
        if options.docs:
            DOCS.write_text(with_table(DOCS.read_text(), rows))
        return 0
    names = requested_rows(options)
    if options.list:
        records = measured.records()
        for name in names:
            record = records.get(name)
            print(name, record and record.ratio, record and record.target)
        return 0
    begun, rows = time.monotonic(), []
    print(" | ".join(HEADINGS), flush=True)
    for result in profile_all(names, options, visible(options.gpus)):
        rows.append(result)
        write(options.out, rows)
        show(result)
    print(f"{len(rows)} of {len(names)} rows, {time.monotonic() - begun:.0f} s")
    return int(any("error" in each for each in rows))


if __name__ == "__main__":
    sys.exit(main())
