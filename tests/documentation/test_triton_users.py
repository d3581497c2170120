"""The wrong kernels of the guide on Triton have the report that the guide shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "triton-users.md"


@pytest.mark.slow
def test_the_report_of_the_wrong_kernels(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    blocks = re.findall(r"^```(?:python)?\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    (kernels,) = [text for text in blocks if "@triton.jit" in text]
    (tests,) = [text for text in blocks if "from kernels import" in text]
    (report,) = [text for text in blocks if "check-triton: 3 findings" in text]
    (tmp_path / "kernels.py").write_text(kernels)
    (tmp_path / "test_kernels.py").write_text(tests)
    command = ["tileir", "check-triton", "--", sys.executable, "-m", "pytest", "-q"]
    run = subprocess.run(
        [sys.executable, "-P", "-m", *command, "-p", "no:cacheprovider", "test_kernels.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    printed = " ".join(run.stdout.replace(f"{tmp_path}/", "").split())
    assert run.returncode == 1 and printed.endswith(" ".join(report.split())), run.stdout
