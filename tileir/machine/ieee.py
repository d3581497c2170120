"""The machine that `evaluate` runs on: IEEE numbers, two's complement, undefined lanes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np

from tileir.errors import VerifyError
from tileir.machine import casts, floats, folds, functions, integers, matmul, reductions
from tileir.machine.descriptors import Descriptors
from tileir.machine.shapes import Shapes, lanes_of
from tileir.machine.tensor import Array, Lanes, Tensor, constant, dtype_of, either, undef
from tileir.op import Op, lookup
from tileir.types import F4E2M1, F8E8M0, Element, Type, shape_of
from tileir.values import Constant

Kernel = Callable[..., Any]


class Machine(Shapes, Descriptors):
    """IEEE arithmetic. Every method takes and returns `Tensor`s of the shapes that its op states.

    Derived classes define what a program does besides computing (memory, grid, calls, output):
    `load`, `store`, `atomic_rmw`, `atomic_cas`, `atomic_load`, `atomic_store`, `fence`, `call`,
    `program_id`, `num_programs`, `global_address`, `clock`, `print_`, `assert_`.
    """

    kernels: dict[str, Kernel] = {**integers.KERNELS, **floats.KERNELS, **functions.KERNELS}
    conversions: dict[str, Kernel] = casts.KERNELS
    relations: dict[str, dict[str, Kernel]] = {
        "icmp": integers.RELATIONS,
        "fcmp": floats.RELATIONS,
    }

    reductions: dict[str, reductions.Reduction] = {**reductions.INTEGERS, **reductions.FLOATS}

    def constant(self, literal: Constant) -> Tensor:
        """Return the value of a literal."""
        return constant(literal)

    def undef(self, type: Type) -> Tensor:
        """Return an undefined value."""
        return undef(type)

    # Elementwise --------------------------------------------------------------------------

    def elementwise(
        self, name: str, *operands: Tensor, op: Op | None = None, **attributes: Any
    ) -> Tensor:
        """Apply the kernel `name` to every element.

        A lane that is undefined in an operand is undefined in the result. Raises InterpretError for
        operands on which the kernel is undefined.
        """
        lost = either(*operands)
        arrays = [t.data for t in operands]
        with np.errstate(all="ignore"):
            if op is not None:
                self._check(name, arrays, operands, op)
            result = self.kernels[name](*arrays, **attributes)
        if type(result) is tuple:
            result, broken = result
            lost = _undefined_lines(lost, broken)
        return Tensor(result if isinstance(result, np.ndarray) else np.asarray(result), lost)

    def _check(self, name: str, arrays: list[Array], operands: tuple[Tensor, ...], op: Op) -> None:
        meaningless, code, words = integers.TRAPS[name]
        lanes = np.asarray(meaningless(*arrays))
        if lanes.any():
            self.trap(code, words, lanes, op, *operands)

    def compare(self, name: str, relation: str, lhs: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
        """Return whether the relation is true, and the complement."""
        lost = either(lhs, rhs)
        with np.errstate(all="ignore"):
            relation_data = np.asarray(self.relations[name][relation](lhs.data, rhs.data))
        return Tensor(relation_data, lost), Tensor(np.asarray(~relation_data), lost)

    def convert(self, name: str, value: Tensor, to: Element, **attributes: Any) -> Tensor:
        """Apply the cast `name` to every element."""
        lost = value.undef
        with np.errstate(all="ignore"):
            result = self.conversions[name](value.data, dtype_of(to), **attributes)
        if type(result) is tuple:
            result, broken = result
            lost = _undefined_lines(lost, broken)
        return Tensor(np.asarray(result), lost)

    def extern(self, symbol: str, values: tuple[Tensor, ...], op: Op) -> Tensor:
        """Apply a function of libdevice, given by its symbol. Raises InterpretError for any other
        function."""
        name = symbol.removeprefix("__nv_") if symbol.startswith("__nv_") else ""
        for word in (name, name.removesuffix("f")):
            for mnemonic in (_LIBDEVICE.get(word, word), "f" + word):
                if mnemonic in self.kernels and (same := _same(mnemonic, op)) is not None:
                    return same.evaluate(self, *values)
        raise self.fault("TIR0555", f"{symbol} has no meaning known here for these types", op)

    def inline_asm(self, op: Any, values: tuple[Tensor, ...]) -> Any:
        """Compute inline assembly as in `inline_ptx`; consecutive elements of the last dimension
        share a register. A result is undefined where an operand of its registers is. Raises
        InterpretError for PTX that means something on a GPU alone."""
        # few kernels have such code
        from tileir.machine.inline_ptx import UnknownPtxError, assemble

        try:
            assembly = assemble(op.text, op.constraints)
        except UnknownPtxError as error:
            message = f"inline assembly has no meaning outside a GPU: {error}"
            raise self.fault("TIR0555", message, op) from None
        shape, pack = shape_of((op.results or op.values)[0].type), op.pack
        columns = [_in_groups(v.data, pack) for v in values]
        results = assembly.elements(columns, [dtype_of(r.type) for r in op.results], pack)
        size, lost = prod(shape), either(*values)
        if lost is not None and pack > 1:
            groups = _in_groups(np.broadcast_to(lost, shape), pack)
            lost = np.repeat(np.any(groups, axis=0), pack)[:size].reshape(shape)
        whole = [np.broadcast_to(np.stack(r, -1).reshape(-1)[:size], size) for r in results]
        tensors = tuple(Tensor(r.reshape(shape), lost) for r in whole)
        return tensors[0] if len(tensors) == 1 else tensors

    # Reductions ---------------------------------------------------------------------------

    def reduce(self, values: tuple[Tensor, ...], axis: int, combiner: str, op: Op) -> Any:
        """Combine all elements along `axis`.

        Named combiners are computed as in `reductions`. So are `fadd` and `fmul` with masked-off
        lanes, which count as the identity. Other reductions are computed as in `folds.fold`.
        """
        with np.errstate(all="ignore"):
            quick, identity = self.reductions.get(combiner), reductions.IDENTITIES.get(combiner)
            if quick is not None and (self.active is None or identity is not None):
                data = values[0].data
                if self.active is not None:
                    data = np.where(self.active, data, np.asarray(identity).astype(data.dtype))
                data = quick(data, axis)
                if data is not None:
                    return Tensor(data, self._undefined_lines(values[0], axis))
            result = folds.fold(values, axis, self._combine(combiner), self.active)
        return result[0] if len(result) == 1 else result

    def _undefined_lines(self, value: Tensor, axis: int) -> Lanes | None:
        """The lines in which a reduction of `value` is undefined: an undefined lane takes part, or
        no lane does."""
        if self.active is None:
            return None if value.undef is None else np.asarray(value.undef.any(axis))
        lost = ~self.active.any(axis)
        if value.undef is not None:
            lost = lost | (value.undef & self.active).any(axis)
        return np.asarray(lost) if lost.any() else None

    def scan(
        self, values: tuple[Tensor, ...], axis: int, combiner: str, reverse: bool, op: Op
    ) -> Any:
        """Return the inclusive prefixes along `axis`, computed as in `folds.sweep`."""
        with np.errstate(all="ignore"):
            combine = self._combine(combiner)
            result = folds.sweep(values, axis, combine, self.active, reverse=reverse)
        if self.active is not None:
            result = tuple([self.restrict(v, self.active) for v in result])
        return result[0] if len(result) == 1 else result

    def _combine(self, combiner: str) -> folds.Combine:
        if combiner[0] == "@":
            return lambda low, high: self.combine(combiner[1:], low, high)
        kernel = self.kernels[combiner]
        return lambda low, high: (
            Tensor(np.asarray(kernel(low[0].data, high[0].data)), either(low[0], high[0])),
        )

    def combine(
        self, symbol: str, low: tuple[Tensor, ...], high: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Call a function of the module on every lane of tiles of one shape."""
        shape = low[0].data.shape
        lanes = [
            self.call(symbol, tuple([_lane(v, index) for v in (*low, *high)]))  # type: ignore[attr-defined]
            for index in np.ndindex(shape)
        ]
        return tuple([_tile_of_lanes(column, shape) for column in zip(*lanes, strict=True)])

    def histogram(self, value: Tensor, mask: Tensor | None, type: Type) -> Tensor:
        """Count the values 0, 1, ... of unsigned integers."""
        (bins,) = shape_of(type)
        numbers = integers.as_unsigned(value.data)
        active = np.ones(value.data.shape, np.bool_) if self.active is None else self.active
        counted = active if mask is None else active & mask.data
        unknown = counted & lanes_of(value)
        if mask is not None and mask.undef is not None:
            unknown = unknown | (active & mask.undef)
        chosen = numbers[counted & (numbers < bins)]
        counts = np.bincount(chosen.astype(np.int64).reshape(-1), minlength=bins)
        lost = np.ones(bins, np.bool_) if unknown.any() else None
        return Tensor(counts.astype(dtype_of(type)), lost)

    # Matmuls -----------------------------------------------------------------------------

    def dot(
        self, a: Tensor, b: Tensor, c: Tensor, precision: str, signed: tuple[bool, bool]
    ) -> Tensor:
        """Return `a @ b + c`. An element is undefined if an element of its row, its column or its
        addend is."""
        with np.errstate(all="ignore"):
            if c.data.dtype == np.int32:
                left, right = (_as_signed(t.data, s) for t, s in zip((a, b), signed, strict=True))
                data = matmul.integer_dot(left, right, c.data)
            else:
                data = matmul.float_dot(a.data, b.data, c.data, precision)
        return Tensor(data, _undefined_lanes(a, b, c))

    def dot_scaled(
        self,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        a_scale: Tensor | None,
        b_scale: Tensor | None,
        k_pack: tuple[bool, bool],
    ) -> Tensor:
        """Return `a @ b + c`, where `a` and `b` have one scale per group of elements along K."""
        left = _unpack(a, -1 if k_pack[0] else -2)
        right = _unpack(b, -2 if k_pack[1] else -1)
        with np.errstate(all="ignore"):
            x = _scale(left.data, a_scale, False)
            y = _scale(right.data, b_scale, True)
            data = matmul.float_dot(x, y, c.data, "ieee")
        lost = _undefined_lanes(left, right, c)
        for scale in (a_scale, b_scale):
            if scale is not None and scale.undef is not None and scale.undef.any():
                lost = np.ones(c.data.shape, np.bool_)
        return Tensor(data, lost)

    # Predicates, promises -----------------------------------------------------------------

    def truth(self, condition: Tensor) -> bool:
        """Return a scalar condition as a bool, for a branch."""
        return bool(condition.data)

    def restrict(self, value: Tensor, lanes: Lanes) -> Tensor:
        """Return `value`, undefined outside of `lanes`."""
        off = ~np.broadcast_to(lanes, value.data.shape)
        return Tensor(value.data, off if value.undef is None else value.undef | off)

    def assume(self, condition: Tensor, op: Op) -> None:
        """Raise InterpretError if the promise is false."""
        self.trap("TIR0554", "the promise does not hold", ~condition.data, op, condition)

    def hint(self, name: str, value: Tensor, numbers: tuple[int, ...], op: Op) -> Tensor:
        """Check the promise along every dimension and return `value`."""
        size = op.inputs[0].type
        step = getattr(getattr(getattr(size, "element", size), "pointee", None), "bytes", 1)
        for axis, number in enumerate(numbers):
            broken = _broken_promise(name, value.data, axis, number, step)
            if broken is not None and broken.any():
                self.trap("TIR0554", f"{name} = {number} does not hold", broken, op, value)
        return value


_LIBDEVICE = {
    "abs": "iabs", "popc": "ctpop", "fmod": "frem", "fmin": "fminnum", "fmax": "fmaxnum",
    "min": "smin", "max": "smax", "mulhi": "smulhi",
}  # fmt: skip
"""Names of libdevice that are not ours, without prefix and suffix."""


def _same(mnemonic: str, op: Any) -> Op | None:
    """The op `mnemonic` on the operands of an external call, where it takes and gives their
    types."""
    try:
        result = cast(Any, lookup(mnemonic))(*op.values)
    except (TypeError, VerifyError):
        return None
    return result if result.result.type is op.to else None


def _in_groups(data: Array, pack: int) -> list[Array]:
    """The elements in groups of `pack`: an array for each place in a group. The last element fills
    the last group."""
    flat = np.ascontiguousarray(data).reshape(-1)
    missing = -len(flat) % pack
    whole = np.concatenate([flat, np.repeat(flat[-1:], missing)]) if missing else flat
    return [whole[i::pack] for i in range(pack)]


def _undefined_lines(lost: Lanes | None, broken: Any) -> Lanes | None:
    """Lanes that were undefined, or are now."""
    if not broken.any():
        return lost
    return np.asarray(broken) if lost is None else np.asarray(broken | lost)


def _lane(value: Tensor, index: tuple[int, ...]) -> Tensor:
    lost = None if value.undef is None else np.asarray(value.undef[index])
    return Tensor(np.asarray(value.data[index]), lost)


def _tile_of_lanes(lanes: tuple[Tensor, ...], shape: tuple[int, ...]) -> Tensor:
    data = np.array([t.data for t in lanes]).reshape(shape)
    if all(t.undef is None for t in lanes):
        return Tensor(data)
    return Tensor(data, np.array([bool(t.undef) for t in lanes]).reshape(shape))


def _as_signed(data: Array, is_signed: bool) -> Array:
    if data.dtype.itemsize == 1 and data.dtype != np.int8:
        small = data.astype(np.int8)
        return small if is_signed else small & 0xF
    return data if is_signed else integers.as_unsigned(data)


def _undefined_lanes(a: Tensor, b: Tensor, c: Tensor) -> Lanes | None:
    """Lanes of a matmul that an undefined element reaches."""
    lost = c.undef
    if a.undef is not None and a.undef.any():
        rows = np.broadcast_to(a.undef.any(-1, keepdims=True), c.data.shape)
        lost = rows if lost is None else rows | lost
    if b.undef is not None and b.undef.any():
        columns = np.broadcast_to(b.undef.any(-2, keepdims=True), c.data.shape)
        lost = columns if lost is None else columns | lost
    return lost


def _unpack(value: Tensor, axis: int) -> Tensor:
    """Two e2m1 numbers out of each i8, the lower bits first; other operands as they are."""
    if value.data.dtype != np.int8:
        return value
    bits = value.data.view(np.uint8)
    data = _interleave(bits & 0xF, bits >> 4, axis).view(dtype_of(F4E2M1))
    return Tensor(data, None if value.undef is None else np.repeat(value.undef, 2, axis))


def _interleave(low: Array, high: Array, axis: int) -> Array:
    stacked = np.stack((low, high), -1 if axis == -1 else -2)
    shape = list(low.shape)
    shape[axis] *= 2
    return np.ascontiguousarray(stacked).reshape(shape)


def _scale(elements: Array, scale: Tensor | None, columns: bool) -> Array:
    """Operands times their group's scale, in f64; `columns` where K is the last but one."""
    wide = elements.astype(np.float64)
    if scale is None:
        return wide
    scales = scale.data.view(dtype_of(F8E8M0)) if scale.data.dtype == np.int8 else scale.data
    numbers = scales.astype(np.float64)
    if columns:
        numbers = np.swapaxes(numbers, -1, -2)
    axis = -2 if columns else -1
    return wide * np.repeat(numbers, wide.shape[axis] // numbers.shape[axis], axis)


def _broken_promise(name: str, data: Array, axis: int, number: int, step: int) -> Lanes | None:
    if name == "multiple_of":
        return _no_multiple(data, axis, number, step)
    if not data.ndim or data.shape[axis] < 2:
        return None
    rows = np.moveaxis(data, axis, 0)
    rise = rows[1:] - rows[:-1]
    inside = np.arange(1, len(rows)) % number != 0
    required = 0 if name == "constant_run" else step
    broken = (rise != required) & inside.reshape(-1, *(1,) * (data.ndim - 1))
    return np.moveaxis(np.concatenate((np.zeros_like(broken[:1]), broken)), 0, axis)


def _no_multiple(data: Array, axis: int, number: int, step: int) -> Lanes:
    """Elements that begin a run, that is, do not follow their neighbour by one step, and are no
    multiple; where lines have runs along other dimensions alone, there is nothing to begin."""
    wide = data if data.dtype == np.uint64 else data.astype(np.int64)
    wrong = np.asarray(wide % wide.dtype.type(number) != 0)
    follows = [np.diff(data, axis=d) == step for d in range(data.ndim)]
    if not data.ndim or data.shape[axis] < 2:
        return wrong
    if not follows[axis].any() and any(f.any() for f in follows):
        return np.zeros_like(wrong)
    begun = np.take(wrong, [0], axis), np.delete(wrong, 0, axis) & ~follows[axis]
    return np.concatenate(begun, axis)
