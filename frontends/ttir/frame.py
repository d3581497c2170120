"""The reader of a region: translates each statement by the rule of its op, with a builder and the
values by name."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs

from tileir.builder import Builder, Expr
from tileir.errors import TileirError
from tileir.frontends.ttir.block_pointers import BlockPointer, NamedValue, parts
from tileir.frontends.ttir.errors import CompilationError, UnsupportedStatement, error_at
from tileir.frontends.ttir.nodes import Operation, Region
from tileir.signature import INDICES, POINTERS
from tileir.types import element_of
from tileir.values import Constant, Undef, Value

_R = TypeVar("_R")
Rule: TypeAlias = Callable[["RegionReader", Operation], Any]
"""Translates a statement; returns its result, a sequence of results, or None."""

_UNLIKE_TRITON = (
    ArithmeticError,
    AttributeError,
    LookupError,
    StopIteration,
    TypeError,
    ValueError,
)
"""Exceptions that a rule raises for a statement of a form that Triton does not print."""

RULES: dict[str, Rule] = {}
"""Rules by the name of the op."""

_HINTS = {
    "tt.contiguity": "contiguous", "tt.divisibility": "multiple_of", "tt.constancy": "constant_run",
}  # fmt: skip
"""Methods of the builder by the attribute that promises something of a result."""

_LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: registers the rule of the ops `names`."""

    def register(apply: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, apply))
        return apply

    return register


@attrs.define(eq=False)
class RegionReader:
    """The state of translating one region."""

    b: Builder
    values: ChainMap[str, NamedValue]
    blocks: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    """The blocks by label, if the body of the function has several."""
    masked_off: str = "zero"
    """The masked-out elements of a load without `other`: `zero` or `undefined`."""
    overlapped: bool = False
    """Whether the kernel may start before the previous one has ended."""
    num_stages: int = 3
    """Stages of a loop that does not state them."""
    loaded: set[Value] = attrs.field(factory=set[Value])
    """Values that depend on a load, if masked-out elements are undefined."""

    def value(self, name: str) -> Expr:
        """The value of that name. Raises UnsupportedStatement."""
        operand = self.lookup(name)
        if isinstance(operand, BlockPointer):
            raise UnsupportedStatement(f"{name} is {operand.type}, which is not supported")
        return operand

    def lookup(self, name: str) -> NamedValue:
        """The value or block pointer of that name. Raises UnsupportedStatement."""
        try:
            return self.values[name]
        except KeyError:
            raise UnsupportedStatement(
                f"{name} is not defined before this use", "TIR1002"
            ) from None

    def operands(self, s: Operation) -> list[Expr]:
        """The values that a statement names, in order."""
        return [self.value(name) for name in s.operands]

    def inside(self, names: Sequence[str] = (), values: Sequence[NamedValue] = ()) -> RegionReader:
        """A reader for a nested region whose parameters have `values`. Raises
        UnsupportedStatement."""
        if len(names) != len(values):
            raise UnsupportedStatement(
                f"a region with {len(names)} parameters has {len(values)} arguments"
            )
        exprs: dict[str, NamedValue] = dict(zip(names, values, strict=True))
        return RegionReader(
            self.b,
            self.values.new_child(exprs),
            masked_off=self.masked_off,
            overlapped=self.overlapped,
            num_stages=self.num_stages,
            loaded=self.loaded,
        )

    def alone(self, names: Sequence[str], values: Sequence[NamedValue]) -> RegionReader:
        """A reader for a separate function, which can only use literals of the enclosing region."""
        literals: Any = _Literals(self.values)
        return RegionReader(self.b, ChainMap(literals)).inside(names, values)

    def run(self, statements: Sequence[Operation]) -> None:
        """Translate `statements`. Raises CompilationError."""
        for s in statements:
            self._translate(s, self._statement)

    def _statement(self, s: Operation) -> None:
        results = self._apply(s)
        self._bind(s, results)
        if self.masked_off == "undefined":
            self._note_loaded(s, results)

    def may_be_undefined(self, x: NamedValue) -> bool:
        """Whether a value depends on masked-out elements of a load. Values that a loop or a branch
        yields count as defined."""
        return isinstance(x, Expr) and x.value in self.loaded

    def _note_loaded(self, s: Operation, results: Any) -> None:
        operands = (self.values.get(name) for name in s.operands)
        if s.name in _LOADS or any(x is not None and self.may_be_undefined(x) for x in operands):
            values = results if isinstance(results, (tuple, list)) else (results,)
            exprs = [x.value for x in values if isinstance(x, Expr)]
            self.loaded.update(v for v in exprs if isinstance(v, Value))

    def run_region(self, region: Region) -> list[Expr]:
        """Translate a region except its terminator; returns the operands of the terminator, block
        pointers as their parts."""
        if not region.statements:
            return []
        *body, last = region.statements
        if last.name.split(".")[-1] not in ("yield", "return", "condition"):
            self.run([*body, last])
            return []
        self.run(body)
        return self._translate(last, self._terminator_values)

    def _terminator_values(self, s: Operation) -> list[Expr]:
        return parts([self.lookup(name) for name in s.operands])

    def _apply(self, s: Operation) -> Any:
        apply = RULES.get(s.name)
        if apply is None:
            raise UnsupportedStatement(f"op {s.name} is not supported", "TIR1001")
        result = apply(self, s)
        return self._add_hints(s, result) if isinstance(result, Expr) else result

    def _add_hints(self, s: Operation, expr: Expr) -> Expr:
        """`expr` with the promises of its statement's attributes. Every op of Triton may have them;
        they are only used for values that addresses depend on."""
        for name, op in _HINTS.items():
            values = s.options.get(name)
            if values and element_of(expr.type) in INDICES | POINTERS:
                expr = getattr(self.b, op)(expr, values=list(values))
        return expr

    def _bind(self, s: Operation, results: Any) -> None:
        result = (
            results if isinstance(results, (tuple, list)) else () if results is None else (results,)
        )
        names = [n if k == 1 else f"{n}#{i}" for n, k in s.results for i in range(k)]
        if names and len(names) != len(result):
            raise UnsupportedStatement(f"{s.name} has {len(result)} results, not {len(names)}")
        if s.operand_types and len(s.result_types) == len(result):
            _check_types(s, result)
        for name, x in zip(names, result, strict=False):
            if self.values.maps[0].setdefault(name, x) is not x:
                raise UnsupportedStatement(f"{name} is defined twice", "TIR1002")

    def _translate(self, s: Operation, rule: Callable[[Operation], _R]) -> _R:
        """The result of `rule` for `s`. New ops get the source location of `s`, and errors its
        location in the TTIR text."""
        try:
            with self.b.at_location(s.source or s.place):
                return rule(s)
        except CompilationError:
            raise
        except UnsupportedStatement as refused:
            raise error_at(refused.message, s.place, refused.code, s.source) from None
        except TileirError as error:
            first = error.diagnostics[0]
            raise error_at(f"{s.name}: {first.message}", s.place, first.code, s.source) from None
        except _UNLIKE_TRITON:
            message = f"{s.name} is not as Triton prints it"
            raise error_at(message, s.place, source=s.source) from None


@attrs.frozen(eq=False)
class _Literals(Mapping[str, NamedValue]):
    """The literals among the `enclosing` values."""

    enclosing: Mapping[str, NamedValue]

    def __getitem__(self, name: str) -> NamedValue:
        x = self.enclosing[name]
        if isinstance(x, Expr) and isinstance(x.value, (Constant, Undef)):
            return x
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return filter(self.__contains__, self.enclosing)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _check_types(s: Operation, exprs: Sequence[NamedValue]) -> None:
    for x, stated in zip(exprs, s.result_types, strict=True):
        if x.type is not stated:
            raise UnsupportedStatement(
                f"the result of {s.name} has type {x.type}, but the text states {stated}"
            )
