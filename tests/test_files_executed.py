"""How many files of this repository a process executes to compile its first kernel.

Each file that is loaded costs a process time before its first launch, most of it for the classes
that it makes. What few kernels need is imported by the functions that need it. A limit is what has
been reached: lower it when a change loads less.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import sys
from pathlib import Path
root = Path(sys.argv[1])
called = set()
def watch(frame, event, _):
    if event == "call" and frame.f_code.co_name != "<module>":
        called.add(frame.f_code.co_filename)
from tileir.backend import compile
from tileir.textual import parse
text = Path(sys.argv[2]).read_text()
module = parse(text)
sys.setprofile(watch)
compile(module, "sm_90a")
sys.setprofile(None)
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
def ours(name):
    path = Path(name or "").resolve()
    return path.suffix == ".py" and path.is_relative_to(root) and "site-packages" not in path.parts
for found in (files, called):
    print(len({name for name in found if ours(name)}))
"""


@pytest.mark.parametrize(("example", "loaded", "called"), [("add", 101, 62), ("matmul", 154, 106)])
def test_a_first_kernel_executes_few_files(example: str, loaded: int, called: int) -> None:
    """`loaded`: files executed at all; `called`: files of which compiling runs a function."""
    program = [sys.executable, "-c", PROGRAM, str(ROOT), str(ROOT / "examples" / f"{example}.tir")]
    ran = subprocess.run(program, capture_output=True, text=True, check=True, timeout=600)
    files, running = map(int, ran.stdout.split())
    assert files <= loaded
    assert running <= called
