"""The state of a builder: the module so far, the function being built, the insertion point."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.builder.arguments import MethodSignature, plan_of
from tileir.builder.caller_location import Places
from tileir.builder.errors import at_caller, known_place, mistake
from tileir.builder.expr import Expr
from tileir.builder.functions import OpenFunction, ParameterSpec, parameters_of
from tileir.builder.ops import insert_fields
from tileir.builder.ssa import Ending, OpenBlock
from tileir.errors import BuildError, Location, TileirError, VerifyError
from tileir.ir import AttributeValue, Function, Global, Module
from tileir.op import Op, lookup
from tileir.ops.control import Branch, CondBranch
from tileir.types import Type
from tileir.values import Operand
from tileir.verify import verify as check

if TYPE_CHECKING:
    from tileir.builder.builder import Builder


class _AtLocation:
    """The context of `Core.at_location`, one per statement of a frontend's source: a class, because
    a generator takes three times as long."""

    __slots__ = ("before", "core", "location")

    def __init__(self, core: Core, location: Location) -> None:
        self.core, self.location = core, location

    def __enter__(self) -> None:
        core = self.core
        self.before = core.tracking, core.fixed
        core.tracking, core.fixed = False, self.location

    def __exit__(self, *error: object) -> None:
        self.core.tracking, self.core.fixed = self.before


class Core:
    """Insertion and structure; what users call is in `Builder`."""

    def __init__(
        self,
        *,
        locations: bool = True,
        metadata: Mapping[str, AttributeValue] | None = None,
        source: str | None = None,
    ) -> None:
        self.insertion: list[Op] | None = None
        """Ops of the block that is being filled; None where the code is unreachable."""
        self.tracking = locations
        """Whether ops get the caller's location."""
        self.fixed: Location | None = None
        """The location that ops get otherwise."""
        self.places = Places()
        self._open: list[OpenFunction] = []
        self._functions: dict[str, Function] = {}
        self._globals: dict[str, Global] = {}
        self._metadata: dict[str, AttributeValue] = dict(metadata or {})
        self._source = source
        self._plans: dict[str, MethodSignature] = {}
        self._numbers: dict[str, int] = {}
        """The next number to try for a combiner, by the stem of its name."""

    # Places ---------------------------------------------------------------------------------

    def here(self) -> Location | None:
        """The location of new ops."""
        return self.places.caller() if self.tracking else self.fixed

    def caller(self) -> Location:
        """The location of the call of the builder, for errors."""
        return self.fixed or self.places.caller()

    def at_location(self, location: Location) -> AbstractContextManager[None]:
        """Within this context every op gets `location`, a place in a frontend's own source, and so
        do errors. Raises BuildError (TIR0803) for anything but a Location."""
        return _AtLocation(self, known_place(location))

    # Insertion -------------------------------------------------------------------------------

    @property
    def current(self) -> OpenFunction:
        """The function being built. Raises BuildError where there is none."""
        if not self._open:
            raise mistake("TIR0801", "no function is open: begin with `with b.kernel(...)`")
        return self._open[-1]

    def emit(self, op: Op) -> Op:
        """Append an op that was constructed outside of the builder, and return it;
        `b.wrap(op.result)` makes its result an Expr."""
        ops = self.insertion
        if ops is None:
            ops = self.current.open_block().ops
        if op.is_terminator:
            raise mistake("TIR0803", f"{op.mnemonic} ends a block: use the builder's own method")
        ops.append(op)
        return op

    def wrap(self, value: Operand) -> Expr:
        """`value` as an Expr."""
        return Expr(cast("Builder", self), value)

    def insert(
        self, mnemonic: str, *operands: Any, type: Type | None = None, **attributes: Any
    ) -> Expr:
        """Append an op with one result. Arguments are operands in the order of the fields, the
        result type, and attributes."""
        result = self._append(mnemonic, operands, type, attributes)
        return Expr(cast("Builder", self), result.results[0])

    def insert_all(
        self, mnemonic: str, *operands: Any, type: Type | None = None, **attributes: Any
    ) -> tuple[Expr, ...]:
        """Append an op of any number of results."""
        result = self._append(mnemonic, operands, type, attributes)
        return tuple([self.wrap(value) for value in result.results])

    def _append(
        self,
        mnemonic: str,
        operands: tuple[Any, ...],
        type: Type | None,
        attributes: dict[str, Any],
    ) -> Op:
        plan = self._plans.get(mnemonic) or self._plan(mnemonic)
        fields = plan.operand_fields(operands, type)
        for name, value in attributes.items():
            fields[name] = plan.member(name, value)
        return insert_fields(cast("Builder", self), plan.kind, fields, self.here(), {})

    def _plan(self, mnemonic: str) -> MethodSignature:
        kind = lookup(mnemonic)
        assert kind is not None, mnemonic
        return self._plans.setdefault(mnemonic, plan_of(kind))

    # Control -----------------------------------------------------------------------------------

    def enter_block(self, block: OpenBlock) -> None:
        self.current.enter(block)
        self.insertion = block.ops

    def end_block(
        self, kind: type[Op], fields: Mapping[str, Any], edges: Any, location: Location | None
    ) -> Ending:
        ending = self.current.finish(kind, fields, edges, location or self.here())
        self.insertion = None
        return ending

    def jump(
        self,
        target: OpenBlock,
        arguments: tuple[Operand, ...] = (),
        *,
        location: Location | None = None,
        **attributes: Any,
    ) -> None:
        """End the block by a branch to `target`."""
        self.end_block(Branch, attributes, {"target": (target, arguments)}, location)

    def fork(
        self,
        condition: Operand,
        then: OpenBlock,
        otherwise: OpenBlock,
        *,
        location: Location | None = None,
    ) -> Ending:
        """End the block by a branch on `condition`."""
        edges = {"then": (then, ()), "otherwise": (otherwise, ())}
        return self.end_block(CondBranch, {"condition": condition}, edges, location)

    def abandon(self, function: OpenFunction) -> None:
        """Abandon `function` after an exception left one of its loops or branches."""
        function.abandon()
        self.insertion = None

    # Functions ----------------------------------------------------------------------------------

    @contextmanager
    def building(
        self, header: Function, parameters: Mapping[str, Type | ParameterSpec]
    ) -> Generator[tuple[Expr, ...]]:
        """Build the body of `header`; afterwards, the previous function is current again."""
        self.refuse_duplicate(header.name)
        place = self.here()
        result = parameters_of(parameters, place)
        function = OpenFunction(attrs.evolve(header, parameters=result, location=place))
        before = self.insertion
        self._open.append(function)
        entry = function.new_block("entry")
        entry.sealed = True
        self.enter_block(entry)
        try:
            yield tuple([self.wrap(p.value) for p in result])
            self._functions[header.name] = self._close(function)
        finally:
            self._open.pop()
            self.insertion = before

    def _close(self, function: OpenFunction) -> Function:
        try:
            return function.close()
        except VerifyError as error:
            raise at_caller(error, self.caller()) from None

    def refuse_duplicate(self, name: str) -> None:
        """Raise BuildError for a name that is already defined."""
        is_open = any(f.header.name == name for f in self._open)
        if is_open or name in self._functions or name in self._globals:
            raise mistake("TIR0810", f"@{name} is already defined")

    def module(self, *, verify: bool = True) -> Module:
        """The module built so far. Raises BuildError with every finding of the verifier, which
        `verify=False` leaves out."""
        if self._open:
            message = f"function {self.current.header.name} is still being built"
            raise mistake("TIR0801", message)
        module = Module(
            dict(self._functions), dict(self._globals), dict(self._metadata), source=self._source
        )
        if verify:
            try:
                check(module)
            except TileirError as error:
                here = self.caller()
                raise BuildError(*(d.at(here) for d in error.diagnostics)) from None
        return module
