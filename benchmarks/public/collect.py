"""Collection of the kernels that programs of public packages launch, as TTIR. No GPU is needed.

    python benchmarks/public/collect.py --out FOLDER [--only PATTERN,...] [--configs 2]

Runs the cases on a simulated GPU (`fake_gpu.py`), and writes each kernel once: `KEY.ttir`, the
output of Triton's own frontend, and `KEY.json`, its name, options and cases. A case that fails is
recorded in `failed.json` with the reason. `--configs` evenly spaced configurations of an autotuned
kernel are compiled.
"""
# ruff: noqa: ANN001, ANN002, ANN201, ANN202

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import traceback
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

KEPT = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "launch_pdl", "enable_fp_fusion",
    "launch_cooperative_grid", "instrumentation_mode",
)  # fmt: skip


class Collector:
    """Stages of Triton's CUDA backend that record the TTIR, and compile nothing."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.case, self.kernels = directory, "", {}
        directory.mkdir(parents=True, exist_ok=True)

    def install(self) -> None:
        from triton.backends.nvidia.compiler import CUDABackend  # type: ignore[import-not-found]

        def make_ttgir(mod, metadata, opt, capability):
            self.keep(str(mod), opt)
            return "ttgir"

        def make_llir(backend, src, metadata, options, capability):
            name = "kernel"
            metadata.update(
                name=name, shared=0, tmem_size=0, global_scratch_size=0, global_scratch_align=1,
                profile_scratch_size=0, profile_scratch_align=1, tensordesc_meta=[],
            )  # fmt: skip
            return "llir"

        CUDABackend.make_ttgir = staticmethod(make_ttgir)
        CUDABackend.make_llir = make_llir
        CUDABackend.make_ptx = lambda *_: "ptx"
        CUDABackend.make_cubin = lambda *_: b"cubin"

    def keep(self, text: str, options) -> None:
        """Write a kernel, unless its file exists."""
        name = re.search(r'tt\.func public @(?:"([^"]+)"|([\w.$]+))', text)
        chosen = {k: getattr(options, k, None) for k in KEPT}
        bare = re.sub(r"loc\([^\n]*\)|^#loc.*$", "", text, flags=re.MULTILINE)
        key = hashlib.sha256(f"{bare}{chosen}".encode()).hexdigest()[:16]
        if key in self.kernels:
            if self.case not in self.kernels[key]["cases"]:
                self.kernels[key]["cases"].append(self.case)
        else:
            kernel = (name[1] or name[2]) if name else "?"
            self.kernels[key] = {"kernel": kernel, "options": chosen, "cases": [self.case]}
            (self.directory / f"{key}.ttir").write_text(text)
        (self.directory / f"{key}.json").write_text(json.dumps(self.kernels[key], default=str))


@contextmanager
def time_limit(seconds: int):
    """A context that raises TimeoutError after `seconds`."""

    def stop(*_):
        raise TimeoutError(f"longer than {seconds} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def few_configurations(count: int) -> None:
    """Let autotuners try `count` of their configurations, evenly spaced."""
    from triton.runtime.autotuner import Autotuner  # type: ignore[import-not-found]

    own = Autotuner.prune_configs

    def prune(self, kwargs):
        configurations = own(self, kwargs)
        step = max(1, len(configurations) // count)
        return configurations[::step][:count]

    Autotuner.prune_configs = prune


def run_case(name: str, make) -> None:
    """Run a case on the simulated GPU. torch.compile generates its kernels for the CPU instead,
    with real tensors, since it cannot run on tensors without memory."""
    if not name.startswith("inductor/"):
        make("cuda").run()
        return
    import torch  # type: ignore[import-not-found]
    from fake_gpu import no_fake_gpu

    with no_fake_gpu(), torch.utils._device.DeviceContext(torch.device("cpu")):
        make("cpu").run()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--only", default="*", help="patterns of names, with commas between them")
    parser.add_argument("--configs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=120, help="for a case")
    options = parser.parse_args()
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ.setdefault("GEMS_VENDOR", "nvidia")
    sys.path.insert(0, str(Path(__file__).parent))
    from fake_gpu import fake_gpu

    collector = Collector(options.out)
    failed = {}
    with fake_gpu():
        collector.install()
        few_configurations(options.configs)
        from cases import all_cases

        for name, make in all_cases().items():
            if not any(fnmatchcase(name, p) for p in options.only.split(",")):
                continue
            collector.case, before = name, len(collector.kernels)
            try:
                with time_limit(options.seconds):
                    run_case(name, make)
            except Exception as error:
                where = traceback.format_exc().splitlines()[-9:]
                failed[name] = [f"{type(error).__name__}: {error}"[:300], *where]
            count = len(collector.kernels) - before
            print(f"{name}: {count} kernels {failed.get(name, [''])[0][:200]}", flush=True)
    (options.out / "failed.json").write_text(json.dumps(failed, indent=1))
    print(f"{len(collector.kernels)} kernels, {len(failed)} cases failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
