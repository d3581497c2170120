"""Classes made by attrs: what copies, pickles, remembered hashes and subclasses of them keep."""

import copy
import pickle
import subprocess
import sys

import attrs
import pytest

from tileir import Location
from tileir.ops.arith import Add
from tileir.types import F32, I32, Tile
from tileir.values import constant

ADD = Add(constant(I32, 1), constant(I32, 2), location=Location("k.tir", 3, 1))


def test_ops_cannot_be_changed():
    for change in (lambda: setattr(ADD, "lhs", ADD.rhs), lambda: delattr(ADD, "lhs")):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            change()
    with pytest.raises(AttributeError):
        object.__setattr__(ADD, "note", 1)  # __slots__


def test_ops_are_equal_only_to_themselves():
    evolved = ADD.evolve()
    assert (evolved == ADD, evolved.key() == ADD.key()) == (False, True)
    assert evolved.result is ADD.result


def test_copies_and_pickles_of_ops_hold_the_same():
    for copied in (copy.copy(ADD), copy.deepcopy(ADD), pickle.loads(pickle.dumps(ADD))):
        assert (str(copied), copied.location) == (str(ADD), ADD.location)


def test_hashes_do_not_leave_their_process():
    """String hashes differ from process to process, so a remembered hash must not be pickled."""
    tile = Tile(F32, (4, 8))
    code = (
        "import pickle, sys\n"
        "from tileir.types import F32, Tile\n"
        "found = pickle.loads(sys.stdin.buffer.read())\n"
        "assert hash(found) == hash(Tile(F32, (4, 8)))\n"
    )
    hash(tile)
    dumps = pickle.dumps(tile)
    subprocess.run([sys.executable, "-c", code], input=dumps, check=True, timeout=600)
