"""A run that is killed half-way: `python killed.py DATABASE`."""

import sys

from problems import bowl, problem

from tileir.backend.tuning import Database, Workers, tune
from tileir.testing.fake_meter import FormulaMeter

METER = FormulaMeter(bowl, pause=0.02, needs_isolation=True)


def run(path):
    with Workers(2) as workers, Database(path) as database:
        return tune(problem(), METER, executor=workers, database=database, version="1")


if __name__ == "__main__":
    run(sys.argv[1])
