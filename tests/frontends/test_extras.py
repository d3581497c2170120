"""What is missing where the extra `frontends` is not installed is said, and how to get it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("language", "library"),
    [
        ("tile", "lark"), ("tensor_comprehensions", "lark"), ("decoupled", "lark"),
        ("triton_c", "lark"), ("triton_c", "pcpp"),
    ],
)  # fmt: skip
def test_a_language_without_its_library_says_how_to_install_it(language: str, library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; import tileir.frontends.{language}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ModuleNotFoundError: ")
    assert last.endswith(f" needs {library}: pip install 'tileir[frontends]'")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("language", ["triton", "te", "ttir"])
def test_languages_without_texts_of_their_own_need_no_library(language: str) -> None:
    code = (
        f"import sys; sys.modules.update(lark=None, pcpp=None); import tileir.frontends.{language}"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
