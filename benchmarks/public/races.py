"""Races in shared memory of kernels of public packages on a GPU, as compute-sanitizer finds them in
the code that tileir generates.

    python benchmarks/public/races.py --out FOLDER [--only PATTERN,...] [--seconds 240] [--jobs 16]
                                      [--maps]

Runs the cases of this folder with smaller numbers (`small.py`) under `compute-sanitizer --tool
racecheck`, several processes at a time. Tensor maps are off unless `--maps`: racecheck follows
`bar.sync` and `cp.async`, but not all ways in which copies by TMA and `wgmma` are ordered.

Writes FOLDER/races.json: the cases that ran, with their kernels; for each kernel with hazards, what
racecheck says; and the cases that failed, with the reason. Exits with 1 if there are hazards.
"""
# ruff: noqa: ANN001

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CASE_LIMIT = 60
"""Seconds for a case."""
MARK = "=== case "
"""Begins a line that a process prints before and after each case."""
_HAZARD = re.compile(
    r"^=+ (?:Error|Warning): (?:Potential )?(?:\w+ )?[Rr]ace reported between (\w+) access at "
    r"([^\s(]+?)(?:\(.*\))?\+(0x[0-9a-f]+)"
)
"""racecheck's report of the first of two accesses: its kind, the kernel and the instruction."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--only", default="*", help="patterns of names, with commas between them")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 4) - 2))
    parser.add_argument("--maps", action="store_true", help="with tensor maps")
    parser.add_argument("--run", nargs="*", help="run these cases in this process")
    parser.add_argument("--list", action="store_true", help="print the names of all cases")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    if options.list:
        print("\n".join(load_cases()))
        return 0
    if options.run is not None:
        run(options.run)
        return 0
    end = time.monotonic() + options.seconds
    options.out.mkdir(parents=True, exist_ok=True)
    names = [n for n in case_names() if any(fnmatchcase(n, p) for p in options.only.split(","))]
    print(f"{len(names)} cases", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        shares = [names[i :: options.jobs] for i in range(options.jobs)]
        outputs = list(pool.map(lambda n: output_of(*n, options, end), enumerate(shares)))
    rows = [row for output in outputs for row in cases_of(output)]
    result = {**machine(), "maps": options.maps, **summary(rows)}
    (options.out / "races.json").write_text(json.dumps(result, indent=1))
    print(text(result))
    return bool(result["hazards"])


def load_cases() -> dict[str, Any]:
    """All cases, with smaller numbers."""
    from on_cpu import MODULES
    from small import load_small

    for module in MODULES:
        load_small(f"cases_{module}")
    from cases import CASES

    return CASES


def case_names() -> list[str]:
    """The names of all cases, which a separate process imports."""
    command = [sys.executable, str(HERE / "races.py"), "--out", "", "--list"]
    environment = {**os.environ, "GEMS_VENDOR": "nvidia", "TILEIR_IN_TRITON": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def output_of(number: int, names: list[str], options, end: float) -> str:
    """The output of processes that run the cases `names` under racecheck. A process that ends
    before its last case is replaced by one for the cases that follow."""
    from measure import environment, visible_gpus

    gpus, log = visible_gpus(), options.out / f"{number}.log"
    folder = Path(tempfile.mkdtemp())
    settings = environment("tileir", folder, HERE.parent.parent, 1)
    settings["TILEIR_IN_TRITON"] = "strict" if options.maps else "strict,no-maps"
    settings.update(CUDA_VISIBLE_DEVICES=gpus[number % len(gpus)], PYTHONUNBUFFERED="1")
    settings.update(FLAGGEMS_CACHE_DIR=str(folder / "gems"))
    settings["PYTHONPATH"] = os.environ.get("PYTHONPATH") or settings["PYTHONPATH"]
    log.write_text("")
    while names and time.monotonic() < end - 10:
        command = ["compute-sanitizer", "--tool", "racecheck", "--print-limit", "10000",
                   sys.executable, "-P", str(HERE / "races.py"), "--out", str(options.out),
                   "--run", *names]  # fmt: skip
        with log.open("a") as file, suppress(subprocess.TimeoutExpired):
            subprocess.run(
                command, env=settings, stdout=file, stderr=subprocess.STDOUT,
                timeout=end - time.monotonic(),
            )  # fmt: skip
        begun = re.findall(f"^{MARK}(\\S+) begins", log.read_text(errors="replace"), re.MULTILINE)
        names = names[names.index(begun[-1]) + 1 :] if begun and begun[-1] in names else []
    return log.read_text(errors="replace")


def run(names: list[str]) -> None:
    """Run cases on the GPU, with smaller numbers, and print where each begins and ends."""
    import torch  # type: ignore[import-not-found]
    from collect import time_limit
    from worker import Launched, few_settings

    few_settings()
    launched, cases = Launched(), load_cases()
    for name in names:
        print(f"{MARK}{name} begins", flush=True)
        reason, launched.kernels, launched.watching = "", {}, True
        try:
            with time_limit(CASE_LIMIT):
                torch.manual_seed(zlib.crc32(name.encode()))
                cases[name]("cuda").run()
                torch.cuda.synchronize()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:300].replace("\n", " ")
            traceback.print_exc()
        row = {"case": name, "kernels": sorted(launched.kernels), "reason": reason}
        print(f"{MARK}ends {json.dumps(row)}", flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def cases_of(output: str) -> Iterable[dict[str, Any]]:
    """The rows of the cases in the output of a process, with `hazards`: what racecheck says, by
    kernel. A case that does not end has a reason for that."""
    row: dict[str, Any] | None = None
    hazards: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith(MARK):
            word, _, rest = line.removeprefix(MARK).partition(" ")
            if word == "ends":
                yield {**json.loads(rest), "hazards": hazards}
                row = None
            else:
                if row is not None:
                    yield row
                hazards = {}
                row = {"case": word, "kernels": [], "reason": "did not end", "hazards": hazards}
        elif match := _HAZARD.match(line):
            kind, kernel, place = match.groups()
            hazards.setdefault(kernel, []).append(f"{kind} at {place}")
    if row is not None:
        yield row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of `races.json` that the cases decide. Kernels that Triton did not
    build, such as torch's, are left out."""
    kernels = {kernel for row in rows for kernel in row["kernels"]}
    hazards: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        ours = {k: v for k, v in row["hazards"].items() if k in kernels or row["reason"]}
        if ours:
            hazards[row["case"]] = ours
    ended = [row for row in rows if not row["reason"]]
    return {
        "cases": sorted(row["case"] for row in ended),
        "kernels": sorted(kernels),
        "hazards": dict(sorted(hazards.items())),
        "failed": {row["case"]: row["reason"] for row in rows if row["reason"]},
    }


def machine() -> dict[str, str]:
    """The GPU and versions."""
    code = "import json, torch, triton; print(json.dumps({'device': torch.cuda.get_device_name(), "
    code += "'torch': torch.__version__, 'triton': triton.__version__}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def text(result: dict[str, Any]) -> str:
    """The lines that are printed."""
    lines = [
        f"{len(result['cases'])} cases, {len(result['kernels'])} kernels, {len(result['failed'])} "
        f"cases failed, {len(result['hazards'])} cases with hazards"
    ]
    for case, kernels in result["hazards"].items():
        lines += [f"{case}: {kernel}: {', '.join(v[:6])}" for kernel, v in kernels.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
