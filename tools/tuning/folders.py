"""Where measurements are kept unless somebody says otherwise."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def default_database() -> Path:
    """`tuning.db` in the user's cache, or in the folder that TILEIR_CACHE_DIR names."""
    given = os.environ.get("TILEIR_CACHE_DIR")
    if given:
        return Path(given, "tuning.db")
    if importlib.util.find_spec("platformdirs") is not None:
        from platformdirs import user_cache_path

        return user_cache_path("tileir") / "tuning.db"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tileir", "tuning.db")
