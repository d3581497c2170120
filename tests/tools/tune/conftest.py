"""Problems are sent to other processes by the name of their module."""

import os
import sys
from pathlib import Path

HERE = str(Path(__file__).parents[2] / "tuning")
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH"))))
