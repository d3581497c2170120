"""A run that is killed half-way: `python killed.py DATABASE`."""

import sys
import time

import attrs
from problems import bowl, problem

from tileir.backend.tuning import Database, Workers, tune
from tileir.testing.fake_meter import FormulaMeter

MOST = 20
"""Candidates that a process compiles before it stops for good."""
_COMPILED = []


@attrs.frozen
class StoppingMeter(FormulaMeter):
    """A meter that compiles no more than `MOST` candidates in a process."""

    def compile(self, job):
        _COMPILED.append(job)
        if len(_COMPILED) > MOST:
            time.sleep(3600)
        return super().compile(job)


def run(path, meter):
    with Workers(2) as workers, Database(path) as database:
        return tune(problem(), meter, executor=workers, database=database, version="1")


if __name__ == "__main__":
    import killed  # by the name by which other processes find its classes

    killed.run(sys.argv[1], killed.StoppingMeter(bowl, isolated=True))
