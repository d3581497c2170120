"""The environment of a program instance: its position in the grid, calls, promises, printing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tileir.effects import Effects
from tileir.errors import Diagnostic, InterpretError, TileirError
from tileir.interp.execute import run
from tileir.interp.failures import fail, program
from tileir.interp.lanes import call_lanes
from tileir.interp.memory import Lanes
from tileir.interp.parameter_contracts import check_parameters
from tileir.interp.program import CompiledFunction, NoInstanceError, prepare
from tileir.ir import Function
from tileir.machine import Tensor, undef
from tileir.machine.descriptors import Descriptors, DescriptorValue
from tileir.machine.trap import Faults
from tileir.op import Op
from tileir.types import Pointer, Scalar, Tile, Type, element_of

MAX_DEPTH = 128
"""Nested calls of device functions."""


class InstanceMixin(Faults):
    """Program ids, calls, promises and output; mixed into a machine of numbers."""

    functions: Mapping[str, Function]
    pausing: set[str]
    codes: dict[str, CompiledFunction]
    addresses: Mapping[str, int]
    grid: tuple[int, int, int]
    ids: tuple[int, int, int] | None
    """The indices of the instance in the grid; None if no instance runs."""
    ticks: int
    budget: int
    time_limit: float | None
    """The time limit of the launch in seconds, once it is exceeded."""
    printed: list[str]
    depth: int

    def program_id(self, axis: int) -> Tensor:
        if self.ids is None:
            raise NoInstanceError
        return Tensor(np.array(self.ids[axis], np.int32), None)

    def num_programs(self, axis: int) -> Tensor:
        return Tensor(np.array(self.grid[axis], np.int32), None)

    def clock(self) -> Tensor:
        """A counter that rises with every reading."""
        self.ticks += 1
        return Tensor(np.array(self.ticks, np.int64), None)

    def global_address(self, name: str) -> Tensor:
        return Tensor(np.array(self.addresses[name], np.uint64), None)

    # Calls ---------------------------------------------------------------------------------

    def code_of(self, name: str) -> CompiledFunction:
        """The function `name`, prepared."""
        code = self.codes.get(name)
        if code is None:
            function = self.functions.get(name)
            if function is None or function.is_declaration:
                message = f"@{name} is called but not defined"
                raise InterpretError(Diagnostic("TIR0512", message))
            code = self.prepare(function, ())
        return code

    def prepare(self, function: Function, arguments: Sequence[Any]) -> CompiledFunction:
        """Prepare `function`, for calls with `arguments` alone where there are any."""
        ids, self.ids = self.ids, None
        try:
            code = self.codes[function.name] = prepare(function, self, self.pausing, arguments)
        finally:
            self.ids = ids
        return code

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a device function that does not pause: its result, or a tuple of several."""
        code = self.code_of(name)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise InterpretError(Diagnostic("TIR0513", f"@{name}: calls nest too deeply"))
        active, self.active = self.active, None
        try:
            check_parameters(code.function, arguments, self)
            results = run(code, arguments, self)
        finally:
            self.active = active
            self.depth -= 1
        return results[0] if len(results) == 1 else results

    def combine(
        self, name: str, low: tuple[Tensor, ...], high: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Call a function of scalars once per element of `low` and `high`, of one shape."""
        active, self.active = self.active, None
        try:
            return call_lanes(self.code_of(name), (*low, *high), self)
        finally:
            self.active = active

    # Predicates ----------------------------------------------------------------------------

    def is_enabled(self, predicate: Tensor, op: Op) -> bool:
        """Whether an op under the scalar `predicate` runs; under an undefined one, an op without
        effects does not."""
        if predicate.undef is not None and predicate.undef.any():
            self._refuse_effects(op)
            return False
        return bool(predicate.data)

    def lanes(self, predicate: Tensor, op: Op) -> Lanes:
        """The lanes in which an op under the tile `predicate` runs."""
        if predicate.undef is None:
            return predicate.data
        if predicate.undef.any():
            self._refuse_effects(op, int(predicate.undef.argmax()), predicate.data.shape)
        return predicate.data & ~predicate.undef

    def _refuse_effects(self, op: Op, lane: int | None = None, shape: Any = None) -> None:
        if op.effects & ~Effects.READ:
            raise fail("TIR0504", op, "the predicate is undefined", self, lane=lane, shape=shape)

    def truth(self, condition: Tensor) -> bool:
        """The value of a scalar condition of a branch."""
        if condition.undef is not None and condition.undef.any():
            raise InterpretError(Diagnostic("TIR0506", "the condition is undefined"))
        return bool(condition.data)

    def undef(self, type: Type) -> Tensor:
        """An undefined value of `type`; for a descriptor, None."""
        if isinstance(element_of(type), (Scalar, Pointer)):
            return undef(type)
        return Tensor(np.zeros(()), np.ones((), np.bool_))

    def block(self, descriptor: Any, indices: tuple[Tensor, ...]) -> Any:
        """Addresses, mask and padding of a block."""
        return Descriptors().block(_check_defined(descriptor), indices)

    def rows(self, descriptor: Any, index: Tensor, column: Tensor) -> Any:
        """The same for chosen rows."""
        return Descriptors().rows(_check_defined(descriptor), index, column)

    # Assertions and output -------------------------------------------------------------------

    def assert_(self, op: Any, condition: Tensor) -> None:
        self._demand(condition, op, "TIR0514", op.message or "the assertion is false")

    def _demand(self, condition: Tensor, op: Op, code: str, message: str) -> None:
        wrong = ~condition.data
        if condition.undef is not None:
            wrong = wrong | condition.undef
        if self.active is not None:
            wrong = wrong & self.active
        if wrong.any():
            raise fail(code, op, message, self, lane=int(wrong.argmax()), shape=wrong.shape)

    def print_(self, op: Any, values: tuple[Tensor, ...]) -> None:
        """Add a line to the report: program ids, prefix, values."""
        shown = (self._show(value, op) for value in values)
        text = " ".join(part for part in (op.prefix, *shown) if part)
        self.printed.append(f"{program(self)} {text}")

    def _show(self, value: Tensor, op: Any) -> str:
        def one(index: tuple[int, ...]) -> str:
            off = active is not None and not active[index]
            if off or (value.undef is not None and value.undef[index]):
                return "-" if off else "undef"
            item = value.data[index]
            if item.dtype.kind not in "iu" or not (op.hex or op.unsigned):
                return str(item)
            bits = int(item) & ((1 << 8 * item.itemsize) - 1)
            return hex(bits) if op.hex else str(bits)

        shape = value.data.shape
        active = self.active if self.active is not None and self.active.shape == shape else None
        texts = np.array([one(i) for i in np.ndindex(shape)], object).reshape(shape)
        return str(texts.tolist()).replace("'", "") if shape else texts.item()

    # Errors --------------------------------------------------------------------------------

    def with_location(self, error: Exception, op: Op) -> TileirError:
        """`error`, raised while `op` ran, with the op's place; a caller's place as a note."""
        if isinstance(error, NotImplementedError):
            return fail("TIR0515", op, str(error) or "has no meaning here", self)
        if isinstance(error, RecursionError):
            return fail("TIR0513", op, "calls nest too deeply", self)
        if isinstance(error, MemoryError) or (isinstance(error, ValueError) and _is_vast(op)):
            return fail("TIR0522", op, f"there is too little memory: {error}", self)
        if isinstance(error, ValueError):
            raise error
        assert isinstance(error, TileirError)
        first, *notes = error.diagnostics
        if first.location is not None or not op.location:
            return error
        text = first.message
        if "(program " not in text:
            text = f"{op.mnemonic}: {text} (program {program(self)})"
        located = Diagnostic(first.code, text, op.location, notes=first.notes)
        return type(error)(located, *notes)

    def step_limit_error(self, op: Op) -> InterpretError:
        if self.time_limit is not None:
            message = f"the launch has taken longer than its time limit, {self.time_limit:g} s"
            return fail("TIR0725", op, message, self)
        return fail("TIR0516", op, "the limit of executed ops is reached", self)

    def unreachable(self) -> None:
        """Reaching `unreachable` breaks the program's promise."""
        raise InterpretError(Diagnostic("TIR0507", "the program executes unreachable"))


def _is_vast(op: Op) -> bool:
    """Whether an operand or result of `op` has more elements than a numpy array can have; numpy
    reports these by a ValueError."""
    kinds = [v.type for v in (*op.inputs, *op.results)]
    return any(isinstance(t, Tile) and t.size >= _VAST for t in kinds)


_VAST = 1 << 58
"""Elements of 32 bytes or fewer that take 2^63 bytes."""


def _check_defined(descriptor: Any) -> DescriptorValue:
    if not isinstance(descriptor, DescriptorValue):
        raise InterpretError(Diagnostic("TIR0503", "the descriptor is undefined"))
    return descriptor
