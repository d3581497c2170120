"""python -m tileir.frontends.triton_backend SCRIPT [ARGUMENTS]: run a program with tileir among
Triton's backends, where Triton does not look for entry points (3.3, TRITON_BACKENDS_IN_TREE=1)."""

from __future__ import annotations

import runpy
import sys

from tileir.frontends.triton_backend import register


def main() -> int:
    """Run the program named by the first argument, or the module after `-m`."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    register()
    del sys.argv[0]
    if sys.argv[0] == "-m" and len(sys.argv) > 1:
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
