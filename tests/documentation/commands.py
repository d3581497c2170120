"""The commands of a checkout, for pages that are executed: `tileir`, `pytest`, `pip`, ..."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

_MODULES = {
    "tileir": "tileir.tools.main", "tileir-opt": "tileir.tools.opt", "pytest": "pytest",
}  # fmt: skip
_PIP = """\
import contextlib, io, os, sys
from pathlib import Path
from setuptools import build_meta

# `pip install -e FOLDER`, without an index: metadata by the build backend, packages
# and modules (but tests) as links.
site, folder = Path(sys.argv[1]), Path(sys.argv[-1]).resolve()
os.chdir(folder)
with contextlib.redirect_stdout(io.StringIO()):
    build_meta.prepare_metadata_for_build_editable(str(site))
packages = [path.parent for path in folder.glob("*/__init__.py")]
for path in [*packages, *folder.glob("[!t]*.py")]:
    link = site / path.name
    link.unlink(missing_ok=True)
    link.symlink_to(path)
"""


def environment(root: Path, folder: Path) -> dict[str, str]:
    """Variables under which commands run the checkout at `root`. `folder` gets the commands, the
    packages that `pip install -e` brings, and the user's cache."""
    binaries, site = folder / "bin", folder / "site"
    for each in (binaries, site):
        each.mkdir(parents=True, exist_ok=True)
    (folder / "pip.py").write_text(_PIP)
    python = shlex.quote(sys.executable)
    lines = {name: f"{python} -P -m {module}" for name, module in _MODULES.items()}
    lines |= dict.fromkeys(("python", "python3"), python)
    lines["pip"] = f"{python} -P {shlex.quote(str(folder / 'pip.py'))} {shlex.quote(str(site))}"
    for name, line in lines.items():
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        script.chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{root}{os.pathsep}{site}",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "NO_COLOR": "1",
    }
