"""The reference interpreter: the meaning of a kernel, executed on numpy arrays.

    report = tileir.interpret(module, "add", 8, [x, y, z, n])

Every op is run by its `evaluate` on a machine of numbers (`tileir.machine`); this package adds the
grid, memory with bounds and undefined bytes, promises, atomics with their order, and the detection
of races and deadlocks."""

from __future__ import annotations

from tileir.interp.arguments import Within
from tileir.interp.launch import Interpreter, interpret
from tileir.interp.races import Race
from tileir.interp.report import AccessCounts, Report

__all__ = ["AccessCounts", "Interpreter", "Race", "Report", "Within", "interpret"]
