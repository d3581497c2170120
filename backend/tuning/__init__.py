"""The tuner, which finds the tile shapes, warps and stages with which a kernel is fastest on a
device.

    problem = Problem(make, space, grid, inputs, content_of(make))
    result = tune(problem, GpuMeter.here(), search=Halving(), database=Database("tuning.db"))

See `docs/explanation/tuning.md`. A search space combines the choices that passes declare
(`compiler_space`) with the parameters of the function that makes modules. Candidates are surveyed
before code is generated: those that exceed a resource, or that the cost model expects to be slow,
are left out. The others are compiled by any `concurrent.futures.Executor`, checked, and measured in
one process per device. The results are kept in SQLite.
"""

from __future__ import annotations

from tileir.backend.cpu.meter import CpuMeter
from tileir.backend.measurement.database import Database, Family
from tileir.backend.measurement.errors import TuneError
from tileir.backend.measurement.outcome import CandidateOutcome, Status
from tileir.backend.measurement.points import point_name
from tileir.backend.tuning.evaluate import TimeLimits, Trial
from tileir.backend.tuning.gpu import GpuMeter
from tileir.backend.tuning.mapl19 import mapl19
from tileir.backend.tuning.pass_parameters import compiler_space
from tileir.backend.tuning.problem import Problem, content_of
from tileir.backend.tuning.prune import Pruning
from tileir.backend.tuning.rank import Ranked, rank_points
from tileir.backend.tuning.search import SEARCHES, Exhaustive, Halving, Local, Search, SearchState
from tileir.backend.tuning.space import ParameterRole, Space, TuningParameter
from tileir.backend.tuning.tune import Stop, TuningObserver, TuningResult, tune
from tileir.backend.tuning.workers import Workers

__all__ = [
    "SEARCHES",
    "CandidateOutcome",
    "CpuMeter",
    "Database",
    "Exhaustive",
    "Family",
    "GpuMeter",
    "Halving",
    "Local",
    "ParameterRole",
    "Problem",
    "Pruning",
    "Ranked",
    "Search",
    "SearchState",
    "Space",
    "Status",
    "Stop",
    "TimeLimits",
    "Trial",
    "TuneError",
    "TuningObserver",
    "TuningParameter",
    "TuningResult",
    "Workers",
    "compiler_space",
    "content_of",
    "mapl19",
    "point_name",
    "rank_points",
    "tune",
]
