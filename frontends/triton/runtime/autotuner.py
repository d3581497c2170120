"""`triton.runtime.autotuner`: choosing configurations of kernels."""

from tileir.frontends.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics

__all__ = ["Autotuner", "Config", "Heuristics", "autotune", "heuristics"]
