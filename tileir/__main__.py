"""`python -m tileir`: the command `tileir`, for environments whose scripts are not on the path."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    # By name: the package of the IR imports no other part.
    sys.exit(import_module("tileir.tools.main").main())
