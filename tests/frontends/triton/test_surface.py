"""What public kernels name of Triton is here.

`surface.tsv` counts names in 2,873 different `@jit` functions of 15 public projects (sglang,
FlagGems, flash-linear-attention, unsloth, lmdeploy, torchao, Liger-Kernel, gemlite, conch,
DeepSpeed, bitsandbytes, SageAttention, cut-cross-entropy, AutoAWQ), by their newest releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import tileir.frontends.triton as triton
from tests.sizes import for_each

USES = {
    name: int(count)
    for name, count in (
        line.split("\t")
        for line in Path(__file__).with_name("surface.tsv").read_text().splitlines()
    )
}


def missing() -> Iterator[str]:
    for name in USES:
        member = triton
        for word in name.split(".")[1:]:
            member = getattr(member, word, None)
        if member is None:
            yield name


def test_nearly_all_uses_are_of_names_there_are() -> None:
    lacking = sum(USES[name] for name in missing())
    assert lacking <= sum(USES.values()) / 10_000


@for_each("module", [
        "language", "language.core", "language.standard", "language.math", "language.random",
        "language.extra", "language.extra.libdevice", "language.extra.cuda",
        "language.extra.cuda.libdevice", "testing", "tools.tensor_descriptor",
    ])  # fmt: skip
def test_modules_have_the_paths_that_kernels_import(module: str) -> None:
    import_module(f"tileir.frontends.triton.{module}")
