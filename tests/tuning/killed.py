"""A run that is killed half-way: `python killed.py DATABASE END`."""

import sys
import time
from pathlib import Path

import attrs
from problems import bowl, problem

from tileir.backend.tuning import Database, Workers, tune
from tileir.testing.fake_meter import FormulaMeter

MOST = 20
"""Candidates that a process compiles before it stops."""
_COMPILED = []


@attrs.frozen
class StoppingMeter(FormulaMeter):
    """A meter that compiles no more than `MOST` candidates in a process until the file `end` is
    there."""

    end: str = ""

    def compile(self, job):
        _COMPILED.append(job)
        ends = time.monotonic() + 600
        while len(_COMPILED) > MOST and not Path(self.end).exists() and time.monotonic() < ends:
            time.sleep(0.02)
        return super().compile(job)


def run(path, meter):
    with Workers(2) as workers, Database(path) as database:
        return tune(problem(), meter, executor=workers, database=database, version="1")


if __name__ == "__main__":
    import killed  # by the name by which other processes find its classes

    killed.run(sys.argv[1], killed.StoppingMeter(bowl, needs_isolation=True, end=sys.argv[2]))
