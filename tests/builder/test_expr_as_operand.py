"""An Expr stands for an operand in the builder alone: ops, edges and predicates refuse it, however
often ops of the same types were made before."""

import pytest

from tileir.builder import F32, I1, I32, Builder, pointer
from tileir.errors import TileirError, VerifyError
from tileir.op import Successor, lookup
from tileir.ops.control import Branch, CondBranch
from tileir.ops.memory import Load, Store
from tileir.ops.predicate import Psi
from tileir.ops.reduce import Combiner, Reduce
from tileir.values import Constant, Undef, Value


@pytest.fixture
def values():
    """A tile, a flag and a pointer as Exprs, in a kernel that is open."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), p=I1, n=I32) as (x, p, n):
        yield b, (x + b.arange(8)).load(), p, x, n
        b.module(verify=False) if not b._open else None


def refusal_of(make):
    with pytest.raises(TileirError) as caught:
        make()
    assert caught.value.code == "TIR0105"
    return str(caught.value)


@pytest.mark.parametrize("before", [0, 1, 20])
def test_required_operands(values, before):
    _, v, *_ = values
    fadd = lookup("fadd")
    for _ in range(before):
        fadd(v.value, v.value)
    assert "give its `.value`" in refusal_of(lambda: fadd(v, v.value))
    refusal_of(lambda: fadd(v.value, v))
    refusal_of(lambda: fadd(v.value, v.value).evolve(rhs=v))


@pytest.mark.parametrize("before", [0, 20])
def test_optional_variadic_and_paired_operands(values, before):
    b, v, p, x, _ = values
    flags, pointers = b.splat(p, to=v.type.__class__(I1, (8,))), x + b.arange(8)
    for _ in range(before):
        Load(pointers.value, flags.value, v.value)
        Store(pointers.value, v.value, flags.value)
        Reduce((v.value,), combiner=Combiner.FADD)
        Psi((p.value, v.value))
    refusal_of(lambda: Load(pointers.value, flags, v.value))
    refusal_of(lambda: Load(pointers.value, flags.value, v))
    refusal_of(lambda: Store(pointers.value, v.value, flags))
    refusal_of(lambda: Reduce((v,), combiner=Combiner.FADD))
    refusal_of(lambda: Psi((p, v.value)))
    refusal_of(lambda: Psi((p.value, v)))


@pytest.mark.parametrize("before", [0, 20])
def test_predicates_and_results(values, before):
    _, v, p, *_ = values
    fadd = lookup("fadd")
    for _ in range(before):
        fadd(v.value, v.value, predicate=p.value)
    refusal_of(lambda: fadd(v.value, v.value, predicate=p))
    refusal_of(lambda: fadd(v.value, v.value, results=(v,)))
    compare = lookup("fcmp")(
        v.value, v.value, predicate_=lookup("fcmp").schema[-1].attribute.enum("olt")
    )
    refusal_of(
        lambda: compare.evolve(results=(compare.results[0], values[0].wrap(compare.results[1])))
    )


def test_edges(values):
    _, v, p, *_ = values
    refusal_of(lambda: Successor("next", (v,)))
    refusal_of(lambda: Successor("next", (1,)))
    to = Successor("next")
    CondBranch(p.value, to, to)
    refusal_of(lambda: CondBranch(p, to, to))
    Branch(to)


def test_operands_are_accepted(values):
    _, v, *_ = values
    fadd = lookup("fadd")
    for other in (v.value, Constant(v.type, 0), Undef(v.type), Value(v.type)):
        assert fadd(v.value, other).rhs is other


def test_numbers_are_no_operands(values):
    _, v, *_ = values
    with pytest.raises(VerifyError):
        lookup("fadd")(v.value, 1.0)
