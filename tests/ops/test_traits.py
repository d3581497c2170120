"""Traits and effects that ops declare, against what evaluating them shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.effects import Effects
from tileir.machine import Machine, Tensor
from tileir.op import FieldKind, Op, all_ops
from tileir.ops.matrix import SHAPES, SKIPPED, cells

from .test_matrix import ELSEWHERE, operands

MACHINE = Machine()
OPS = {o.mnemonic: o for o in all_ops() if not o.mnemonic.startswith("gpu.")}
COMPUTED = [n for n in OPS if n not in SKIPPED | ELSEWHERE]
MOVING = {
    "reshape", "trans", "broadcast", "cat", "gather", "scan", "extract_slice", "insert_slice",
    "expand_dims", "multiple_of", "contiguous", "constant_run", "reduce", "histogram", "dot",
    "dot_scaled", "join", "split", "splat", "unsplat", "make_range",
}  # fmt: skip
"""Computing ops that are not elementwise; hints promise something about neighbours."""


def permute(value: Any, order: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([permute(v, order) for v in value])
    if value is None or not value.data.ndim:
        return value
    return Tensor(value.data[order], None if value.undef is None else value.undef[order])


def flat(result: Any) -> list[Tensor]:
    return list(result) if isinstance(result, tuple) else [result]


def bits(tensor: Tensor) -> bytes:
    lost = np.zeros(tensor.data.shape, bool) if tensor.undef is None else tensor.undef
    return np.where(lost, np.zeros((), tensor.data.dtype), tensor.data).tobytes() + lost.tobytes()


def test_what_is_elementwise() -> None:
    assert {n for n in COMPUTED if not OPS[n].elementwise} == MOVING
    assert not any(OPS[n].elementwise for n in ELSEWHERE)


@for_each("name", [n for n in COMPUTED if OPS[n].elementwise])
def test_elements_of_elementwise_ops_do_not_see_each_other(name: str) -> None:
    order = np.random.default_rng(1).permutation(48)
    for number, op in enumerate(cells(OPS[name], (48,))):
        wrong = name == "extern_elementwise" and {str(v.type) for v in op.inputs + op.results} != {
            "f32<48>"
        }
        if wrong or (number % 5 and name != "extern_elementwise"):
            continue
        inputs = operands(op, number)
        straight = flat(op.evaluate(MACHINE, *inputs))
        mixed = flat(op.evaluate(MACHINE, *permute(tuple(inputs), order)))
        for one, other in zip(straight, mixed, strict=True):
            assert bits(permute(one, order)) == bits(other)


def test_what_is_elementwise_on_a_gpu() -> None:
    mine = {o.mnemonic for o in all_ops() if o.mnemonic.startswith("gpu.") and o.elementwise}
    assert mine == {"gpu.conditional_scale"}


def binary(op: Op) -> bool:
    fields = op.fields(FieldKind.OPERAND)
    return [f.name for f in fields] == ["lhs", "rhs"]


@for_each("name", [n for n in COMPUTED if OPS[n].elementwise])
def test_commutative_is_what_does_not_see_the_order_of_its_operands(name: str) -> None:
    same, ran = True, False
    for number, op in enumerate(cells(OPS[name], (48,))):
        if not binary(op) or op.attributes != next(cells(OPS[name], (48,))).attributes:
            continue
        a, b = operands(op, number)
        if name in ("sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr"):
            a = b = operands(op, number + 1)[1]
            b = Tensor(b.data[::-1])
        ran = True
        result = (flat(op.evaluate(MACHINE, *pair)) for pair in ((a, b), (b, a)))
        same &= all(bits(x) == bits(y) for x, y in zip(*result, strict=True))
    if ran and name not in ("icmp", "fcmp"):
        assert same == OPS[name].commutative


R, W, S, O, T = Effects.READ, Effects.WRITE, Effects.SYNC, Effects.OUTSIDE, Effects.TRAP  # noqa: E741
EFFECTS = {
    "load": R, "store": W, "atomic_rmw": R | W | S, "atomic_cas": R | W | S, "atomic_load": R | S,
    "atomic_store": W | S, "fence": S, "barrier": S, "descriptor_load": R, "descriptor_store": W,
    "descriptor_reduce": R | W | S, "descriptor_gather": R, "descriptor_scatter": W, "print": O,
    "assert": O | T, "assume": O | T, "clock": O, "globaltimer": O, "sdiv": T, "udiv": T, "srem": T,
    "urem": T, "shl": T, "lshr": T, "ashr": T, "gather": T, "extract_slice": T, "insert_slice": T,
    "multiple_of": T, "contiguous": T, "constant_run": T, "call": R | W | S | O | T,
    "br": Effects.CONTROL, "cond_br": Effects.CONTROL, "ret": Effects.CONTROL,
    "unreachable": Effects.CONTROL,
}  # fmt: skip
BY_FIRST_OPERAND = {
    "load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "reduce", "scan",
    "histogram", "assume", "assert", "print",
}  # fmt: skip


@for_each("name", OPS)
def test_effects_are_those_listed(name: str) -> None:
    assert OPS[name].effects_ == EFFECTS.get(name, Effects.PURE)
    assert OPS[name].predicate_follows_operand == (name in BY_FIRST_OPERAND)


@pytest.mark.parametrize(
    ("name", "changes", "effects"),
    [
        ("load", {"volatile": True}, R | S),
        ("store", {"volatile": True}, W | S),
        ("extern_elementwise", {"pure": False}, R | W | O),
        ("reduce", {}, Effects.PURE),
    ],
)
def test_attributes_change_effects(name: str, changes: dict[str, Any], effects: Effects) -> None:
    plain = next(cells(OPS[name], (7,)))
    assert plain.evolve(**changes).effects == effects


def test_opaque_code_that_is_not_pure_does_everything() -> None:
    asm: Any = OPS["inline_asm"]
    op = asm((), (), text="bar.sync 0;", constraints="", pure=False)
    assert op.effects == R | W | S | O
    assert asm(
        (next(cells(OPS["add"], (7,))).result.type,), (), text="", constraints=""
    ).effects == (Effects.PURE)


CELLS = {
    "acos": 160, "acosh": 160, "add": 200, "addrspacecast": 20, "and": 50, "ashr": 50, "asin":
    160, "asinh": 160, "assert": 10, "assume": 10, "atan": 160, "atan2": 160, "atanh": 160,
    "atomic_cas": 960, "atomic_load": 640, "atomic_rmw": 1020, "atomic_store": 640, "barrier":
    10, "bitcast": 390, "broadcast": 345, "cat": 210, "cbrt": 160, "ceil": 40, "clampf": 80,
    "clock": 10, "clz": 50, "constant_run": 50, "contiguous": 50, "copysign": 40, "cos": 160,
    "cosh": 160, "ctpop": 50, "descriptor_gather": 36, "descriptor_load": 108,
    "descriptor_reduce": 333, "descriptor_scatter": 36, "descriptor_store": 108, "dot": 184,
    "dot_scaled": 360, "erf": 160, "erfc": 160, "exp": 160, "exp2": 160, "expand_dims": 345,
    "expm1": 160, "extern_elementwise": 1800, "extract_slice": 270, "fabs": 40, "fadd": 230,
    "fcmp": 640, "fdiv": 230, "fence": 50, "floor": 40, "fma": 110, "fmaximum": 40, "fmaxnum":
    40, "fminimum": 40, "fminnum": 40, "fmul": 230, "fneg": 40, "fpcast": 2800, "fpext": 50,
    "fptosi": 400, "fptoui": 400, "fptrunc": 250, "frem": 40, "frint": 40, "fround": 40, "fsub":
    230, "ftrunc": 40, "gather": 840, "getelementptr": 520, "global_address": 120,
    "globaltimer": 10, "histogram": 288, "iabs": 50, "icmp": 560, "insert_slice": 270,
    "inttoptr": 520, "join": 150, "load": 3510, "log": 160, "log10": 160, "log1p": 160, "log2":
    160, "lshr": 50, "make_descriptor": 2772, "make_range": 20, "mul": 200, "multiple_of": 50,
    "neg": 50, "num_programs": 10, "or": 50, "pow": 160, "print": 450, "program_id": 10, "psi":
    300, "ptrtoint": 520, "reduce": 966, "reshape": 405, "rsqrt": 160, "scan": 1036, "sdiv":
    150, "select": 150, "sext": 100, "shl": 50, "sin": 160, "sinh": 160, "sitofp": 200, "smax":
    50, "smin": 50, "smulhi": 50, "splat": 135, "split": 150, "sqrt": 160, "srem": 100, "store":
    2080, "sub": 200, "tan": 160, "tanh": 160, "trans": 210, "trunc": 100, "udiv": 150,
    "uitofp": 200, "umax": 50, "umin": 50, "umulhi": 50, "unsplat": 135, "urem": 50, "xor": 50,
    "zext": 100,
}  # fmt: skip
"""Number of legal cells over all shapes: a rule that grows or shrinks shows here."""


def test_the_shapes_of_cells_have_one_row_odd_extents_and_whole_warps() -> None:
    ranks = {len(shape) for shape in SHAPES}
    assert ranks == {0, 1, 2, 3}
    for rank in (1, 2):
        shapes = [shape for shape in SHAPES if len(shape) == rank]
        assert any(all(n % 2 for n in shape) for shape in shapes)
        assert any(shape[-1] % 16 == 0 and min(shape) > 1 for shape in shapes)
    assert any(shape[0] == 1 and shape[1] % 32 == 0 for shape in SHAPES if len(shape) == 2)


@pytest.mark.sampled(39)
@pytest.mark.parametrize("name", [n for n in OPS if n not in SKIPPED])
def test_as_many_cells_as_there_were(name: str) -> None:
    count = sum(1 for shape in SHAPES for _ in cells(OPS[name], shape))
    assert count == CELLS[name]
