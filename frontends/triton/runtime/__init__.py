"""`triton.runtime`: kernels, their tuning, their errors, and properties of the machine for host
code."""

from tileir.frontends.triton.interface import KernelInterface
from tileir.frontends.triton.reinterpreting import TensorWrapper, reinterpret
from tileir.frontends.triton.runtime import autotuner, errors, jit
from tileir.frontends.triton.runtime.driver import driver
from tileir.frontends.triton.runtime.errors import InterpreterError, OutOfResources
from tileir.frontends.triton.runtime.jit import OPTIONS, JITFunction, PreparedLaunch
from tileir.frontends.triton.tuning import Autotuner, Config, Heuristics, autotune, heuristics

__all__ = [
    "OPTIONS",
    "Autotuner",
    "Config",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "OutOfResources",
    "PreparedLaunch",
    "TensorWrapper",
    "autotune",
    "autotuner",
    "driver",
    "errors",
    "heuristics",
    "jit",
    "reinterpret",
]
