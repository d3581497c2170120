"""The builder: a module made op by op."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, cast

from tileir.builder import arithmetic, tiles
from tileir.builder.arguments import as_number, check_parameters, check_type, literal
from tileir.builder.blocks import BlockRef, BranchTarget, known_block, target_of
from tileir.builder.control import Else, For, If, While, condition_of, leave_loop
from tileir.builder.core import Core
from tileir.builder.errors import at_caller, mistake
from tileir.builder.expr import Expr
from tileir.builder.functions import ParameterSpec, parameters_of
from tileir.builder.ops import DerivedOps, wrap_results
from tileir.builder.promotion import operand_of
from tileir.builder.variables import Var, variable
from tileir.errors import TileirError
from tileir.field import FieldKind, Successor
from tileir.ir import AttributeValue, Function, Global, InlineHint, Linkage, Visibility
from tileir.ops.control import Branch, CondBranch, Return, Unreachable
from tileir.ops.symbols import Call
from tileir.types import F32, I1, I32, VOID, Element, Type, element_of
from tileir.values import Constant, Operand, Undef, Value


class Builder(Core, DerivedOps):
    """Builds one module. A builder belongs to one thread; there is no global current builder.

        b = Builder()
        with b.kernel("double", x=pointer(F32), n=I32) as (x, n):
            i = b.program_id(axis=0) * 64 + b.arange(64)
            (x + i).store((x + i).load(i < n) * 2, i < n)
        module = b.module()

    Methods with the names of ops insert these ops; they neither broadcast nor convert operands.
    They return `Expr`s, whose operators do both. Mistakes raise BuildError at the line of the
    caller. `locations=False` omits source locations.
    """

    # Functions ----------------------------------------------------------------------------------

    def kernel(
        self, name: str, /, **parameters: Type | ParameterSpec
    ) -> AbstractContextManager[tuple[Expr, ...]]:
        """Define a kernel: `with b.kernel("k", x=pointer(F32), n=I32) as (x, n):`.

        Parameters are types, or `arg(...)` for types with promises. The context returns one Expr
        per parameter.
        """
        return self.building(Function(name, kernel=True), parameters)

    def function(  # type: ignore[override]
        self,
        name: str,
        results: Type | Sequence[Type] | None,
        /,
        **parameters: Type | ParameterSpec,
    ) -> AbstractContextManager[tuple[Expr, ...]]:
        """Define a device function with result types `results`; parameters are those of `kernel`.

        `b.call(name, ...)` calls the function; `b.ret(...)` returns from it.
        """
        return self.building(Function(name, results=_types(results)), parameters)

    def declare(
        self, name: str, results: Type | Sequence[Type] | None, /, **parameters: Type
    ) -> None:
        """Declare a device function that another module defines; parameters are those of
        `function`."""
        self.refuse_duplicate(name)
        place = self.here()
        header = Function(name, parameters_of(parameters, place), _types(results), location=place)
        self._functions[name] = header

    def configure(
        self,
        *,
        visibility: Visibility | str | None = None,
        linkage: Linkage | str | None = None,
        inline: InlineHint | str | None = None,
        alignment: int | None = None,
        **attributes: AttributeValue,
    ) -> None:
        """Set attributes of the function under construction: `b.configure(num_warps=8)`.

        Visibility, linkage and inlining are members of their enums, or their names in the text:
        `inline="noinline"`.
        """
        function = self.current
        options = {
            "visibility": _member(Visibility, visibility),
            "linkage": _member(Linkage, linkage),
            "inline": _member(InlineHint, inline),
            "alignment": alignment,
        }
        changes: dict[str, Any] = {name: v for name, v in options.items() if v is not None}
        merged = {**function.header.attributes, **attributes}
        function.header = function.header.evolve(attributes=merged, **changes)

    def describe(self, **metadata: AttributeValue) -> None:
        """Add entries to the module's metadata: `b.describe(author="me")`."""
        self._metadata.update(metadata)

    def global_(
        self,
        name: str,
        element: Element,
        count: int,
        initial: Sequence[float] | float | None = None,
        *,
        constant: bool = False,
        **settings: Any,
    ) -> str:
        """Define a global array of `count` elements and return its name.

        `initial` is one number per element, one number for all elements, or None for an array that
        is filled before the launch.
        """
        self.refuse_duplicate(name)
        values: Any = (initial,) if isinstance(initial, (int, float)) else initial
        literals = None if values is None else tuple(literal(element, n) for n in values)
        self._globals[name] = Global(
            name,
            element,
            count,
            constant=constant,
            initial=literals,
            location=self.here(),
            **settings,
        )
        return name

    def combiner(self, combine: Callable[..., Any], values: Sequence[Any]) -> str:
        """Define a private device function that combines two elements, and return its name.

        `values` are the tiles that are reduced together. `combine` takes one scalar Expr per tile
        for the first element, then one per tile for the second, and returns the combined scalars.
        """
        operands = [v.value if isinstance(v, Expr) else v for v in values]
        elements = tuple(element_of(v.type) for v in operands if isinstance(v, (Value, Constant)))
        check_parameters(combine, 2 * len(elements))
        stem = combine.__name__ if combine.__name__.isidentifier() else "combine"
        name = self._free_name(stem)
        places = [(f"{side}{i}", t) for side in "ab" for i, t in enumerate(elements)]
        with self.function(name, elements, **dict(places)) as parameters:
            self.configure(visibility=Visibility.PRIVATE)
            joined = combine(*parameters)
            self.ret(*(joined if isinstance(joined, (tuple, list)) else (joined,)))  # type: ignore[misc]
        return name

    def library(
        self, name: str, /, *arguments: Any, results: Type | Sequence[Type] | None = None
    ) -> Any:
        """Call a function of the standard library (`tileir.std`).

        `results` are the result types; they are required if the types of `arguments` do not
        determine them. A Python integer is an i32, a bool an i1.
        """
        values = [self._library_value(item) for item in arguments]
        from tileir import std  # few programs call it

        required = None if results is None else tuple(map(str, _types(results)))
        try:
            function = std.function(name, required, [str(v.value.type) for v in values])
        except TileirError as error:
            raise mistake(error.code, error.diagnostics[0].message) from None
        return self.call(self._declare(function), *values)

    def _library_value(self, expr: Any) -> Expr:
        if isinstance(expr, Expr):
            return expr
        return self.constant(I1 if isinstance(expr, bool) else I32, expr)

    def _declare(self, function: Function) -> str:
        """Declare a function of the library with these types, and return its name."""
        kinds = [p.type for p in function.parameters]
        number, name, header_names = 0, function.name, {f.header.name for f in self._open}
        while (old := self._functions.get(name)) is not None or name in header_names:
            if (
                old is not None
                and old.is_declaration
                and old.results == function.results
                and [p.type for p in old.parameters] == kinds
            ):
                return name
            number += 1
            name = f"{function.name}.{number}"
        header = parameters_of({f"a{i}": t for i, t in enumerate(kinds)}, self.here())
        self._functions[name] = Function(name, header, function.results, location=self.here())
        return name

    def _free_name(self, stem: str) -> str:
        names = ChainMap[str, Any](self._functions, self._globals)
        being_built = {f.header.name for f in self._open}
        number = self._numbers.get(stem, 0)
        while (name := f"{stem}{number or ''}") in names or name in being_built:
            number += 1
        self._numbers[stem] = number
        return name

    # Control ------------------------------------------------------------------------------------

    def for_(
        self, low: Any, high: Any = None, step: Any = 1, *, name: str = "i", **attributes: Any
    ) -> For:
        """A loop: `with b.for_(low, high, step) as i:` counts from `low` to `high`, excluded.

        `b.for_(n)` counts from 0. Bounds are scalar integers of one type. A negative literal step
        counts down. Keywords such as `stages=` and `unroll=` become attributes of the latch.
        """
        bounds = (0, low, step) if high is None else (low, high, step)
        self._check_options(attributes)
        return For(self, bounds, attributes, name, self.here())

    def while_(self, condition: Callable[[], Any], **attributes: Any) -> While:
        """A loop: `with b.while_(lambda: i < n):`.

        The condition, a scalar i1, is evaluated before each iteration. `attributes` are those of
        `for_`.
        """
        self._check_options(attributes)
        if not callable(condition):
            raise mistake("TIR0806", "b.while_ takes a function: b.while_(lambda: i < n)")
        return While(self, condition, attributes, self.here())

    def if_(self, condition: Any) -> If:
        """A conditional: `with b.if_(condition):`, where `condition` is a scalar i1."""
        return If(self, condition_of(condition), self.here())

    def else_(self) -> Else:
        """The other branch of a conditional: `with b.else_():` directly after an `if_`."""
        return Else(self, self.here())

    def break_(self) -> None:
        """Leave the innermost loop."""
        leave_loop(self, continues=False)

    def continue_(self) -> None:
        """Continue with the next iteration of the innermost loop."""
        leave_loop(self, continues=True)

    def var(self, initial: Any, type: Type | None = None, *, name: str | None = None) -> Var:
        """Return a variable with the value `initial`. Without `type`, a Python integer is an i32, a
        float an f32, a bool an i1."""
        return variable(self, initial, type, name)

    def ret(self, *values: Any) -> None:
        """Return from the function with one value per result."""
        results = self.current.header.results
        result = self._operands_of_types("results of the function", values, results)
        self.end_block(Return, {"values": result}, {}, None)

    def unreachable(self) -> None:
        """Promise that this point is never reached."""
        self.end_block(Unreachable, {}, {}, None)

    def call(
        self, callee: str, /, *arguments: Any, results: Type | Sequence[Type] | None = None
    ) -> Any:
        """Call a device function and return its results.

        `results` are the result types; they are required if the builder does not know the function
        yet, because it is defined later or in another module.
        """
        target, result = self._functions.get(callee), arguments
        types = _types(results)
        if target is not None:
            types = target.results
            result = self._operands_of_types(
                f"arguments of @{callee}", arguments, [p.type for p in target.parameters]
            )
        operands = tuple(_operand(item) for item in result)
        call_op = self._make(lambda: Call(types, callee, operands, location=self.here()))
        return wrap_results(self, self.emit(call_op).results)

    def _operands_of_types(
        self, what: str, values: Sequence[Any], types: Sequence[Type]
    ) -> tuple[Operand, ...]:
        """`values` as operands of `types`. Raises BuildError."""
        result = [operand_of(item) for item in values]
        if len(result) == len(types):
            pairs = zip(result, types, strict=True)
            result = [literal(t, x) if isinstance(x, (int, float)) else x for x, t in pairs]
        have = [x.type for x in result if not isinstance(x, (int, float))]
        if have != list(types):
            expected, actual = (", ".join(map(str, ts)) for ts in (types, have))
            raise mistake("TIR0810", f"{what} are ({expected}), not ({actual})")
        return cast(tuple[Operand, ...], tuple(result))

    # Blocks by hand -----------------------------------------------------------------------------

    def block(self, label: str, *parameters: Type) -> BlockRef:
        """Create a basic block whose parameters have the types `parameters`.

        Fill the block after `b.enter`; branch to it by `b.br` and `b.cond_br`.
        """
        values = tuple([Value(check_type(t, "a block's parameter")) for t in parameters])
        result = self.current.new_block(label, values)
        return BlockRef(result, tuple(self.wrap(v) for v in values))

    def enter(self, block: BlockRef) -> None:
        """Move the insertion point to the end of `block`. Raises BuildError if the current block
        has no terminator."""
        if self.current.block is not None:
            raise mistake("TIR0806", f"block {self.current.block.label} has no terminator yet")
        self.enter_block(known_block(block).block)

    def br(self, target: BlockRef | BranchTarget, **attributes: Any) -> None:
        """Branch to a block with arguments: `b.br(loop(i, x))`. `attributes` are those of the op
        `br`."""
        self._check_options(attributes)
        block, arguments = target_of(target)
        self.jump(block, arguments, **attributes)

    def cond_br(
        self,
        condition: Any,
        then: BlockRef | BranchTarget,
        otherwise: BlockRef | BranchTarget,
        **attributes: Any,
    ) -> None:
        """Branch to `then` if the scalar i1 `condition` is true, else to `otherwise`."""
        self._check_options(attributes)
        edges = {"then": target_of(then), "otherwise": target_of(otherwise)}
        fields = {"condition": condition_of(condition), **attributes}
        self.end_block(CondBranch, fields, edges, None)

    # Values --------------------------------------------------------------------------------------

    def constant(self, type: Type, number: float) -> Expr:
        """Return a number as a literal of `type`; a literal of a tile type has it in every element.

        Raises BuildError if the type cannot represent the number.
        """
        result = as_number(number)
        if result is None:
            raise mistake("TIR0802", f"a literal is made of a number, not {number!r}")
        return self.wrap(literal(check_type(type, "a literal"), result))

    def undef(self, type: Type) -> Expr:
        """Return an undefined value of `type`."""
        return self.wrap(Undef(check_type(type, "an undefined value")))

    def arange(self, start: int, stop: int | None = None) -> Expr:
        """Return the i32 tile `start, ..., stop - 1` of shape [stop - start]; `b.arange(n)` starts
        at 0.

        Bounds are Python integers.
        """
        return tiles.arange(self, start, stop)

    def full(self, shape: tuple[int, ...] | int, value: Any, element: Element = F32) -> Expr:
        """Return a tile of `shape` whose elements are all `value`: a number or a scalar Expr,
        converted to `element`."""
        return self.wrap(tiles.full(self, shape, value, element))

    def zeros(self, shape: tuple[int, ...] | int, element: Element = F32) -> Expr:
        """Return a tile of zeros of `shape` and element type `element`."""
        return self.full(shape, 0, element)

    def where(self, condition: Any, then: Any, otherwise: Any) -> Expr:
        """Select elements of `then` where `condition` (i1) is true, else of `otherwise`.

        All three are broadcast to one shape; `then` and `otherwise` are converted to one type.
        """
        return arithmetic.select(self, condition, then, otherwise)

    def maximum(self, x: Any, y: Any) -> Expr:
        """Return the elementwise maximum of operands, broadcast and converted to one type.

        Integers are signed. The result is NaN if an operand is NaN.
        """
        return tiles.extremum(self, x, y, largest=True)

    def minimum(self, x: Any, y: Any) -> Expr:
        """Return the elementwise minimum of operands, broadcast and converted to one type.

        Integers are signed. The result is NaN if an operand is NaN.
        """
        return tiles.extremum(self, x, y, largest=False)

    def cdiv(self, x: Any, y: Any) -> Expr:
        """Return the elementwise quotient of signed integers, rounded up."""
        return arithmetic.binary(self, x, y, "sdiv", None, rounding="ceil")

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Raise BuildError for an option that is no attribute of a branch."""
        if not options:
            return
        names = [f.name for f in Branch.fields(FieldKind.ATTRIBUTE)]
        for name in options:
            if name not in names:
                raise mistake(
                    "TIR0803", f"a loop has no option {name}; there are: {', '.join(names)}"
                )
        self._make(lambda: Branch(Successor(""), **options, location=self.caller()))

    def _make(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except TileirError as error:
            raise at_caller(error, self.caller()) from None


def _types(types: Type | Sequence[Type] | None) -> tuple[Type, ...]:
    if types is None or types is VOID:
        return ()
    items: Sequence[Any] = types if isinstance(types, (tuple, list)) else (types,)
    return tuple([check_type(item, "a result") for item in items])


def _member(kind: type[Enum], enum: Enum | str | None) -> Enum | None:
    try:
        return None if enum is None else kind(enum)
    except ValueError:
        words = ", ".join(str(m.value) for m in kind)
        message = f"{kind.__name__.lower()} is one of {words}, not {enum!r}"
        raise mistake("TIR0803", message) from None


def _operand(item: Any) -> Operand:
    operand = operand_of(item)
    if isinstance(operand, (int, float)):
        raise mistake("TIR0802", f"nothing here says the type of {operand}")
    return operand
