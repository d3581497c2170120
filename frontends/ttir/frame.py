"""Where statements are carried out: the builder, the values by name, and the rule of each op."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import attrs

from tileir.builder import Builder, Expr
from tileir.errors import TileirError
from tileir.frontends.ttir.block_pointers import BlockPointer, NamedValue, parts
from tileir.frontends.ttir.errors import CompilationError, UnsupportedStatement, error_at
from tileir.frontends.ttir.nodes import Operation, Region
from tileir.values import Constant, Undef, Value

Rule: TypeAlias = Callable[["RegionReader", Operation], Any]
"""Carries out a statement: its result, several, or None."""

_UNLIKE_TRITON = (
    ArithmeticError,
    AttributeError,
    LookupError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What rules come upon in a statement that lacks what Triton writes there."""

RULES: dict[str, Rule] = {}
"""By the name of the op."""

_LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})


def rule(*names: str) -> Callable[[Rule], Rule]:
    """The rule of the ops `names`."""

    def register(apply: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, apply))
        return apply

    return register


@attrs.define(eq=False)
class RegionReader:
    """A region being carried out."""

    b: Builder
    values: ChainMap[str, NamedValue]
    blocks: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    """Of a function whose body is several blocks, by label."""
    masked_off: str = "zero"
    """What loads give where their mask is false and they name no value: `zero` or `undefined`."""
    overlapped: bool = False
    """Whether the kernel may begin before the one before it has ended."""
    num_stages: int = 3
    """Stages of a loop that does not state them."""
    loaded: set[Value] = attrs.field(factory=set[Value])
    """Values that depend on a load, where what loads give may be undefined."""

    def value(self, name: str) -> Expr:
        """The value of that name. Raises UnsupportedStatement."""
        found_value = self.lookup(name)
        if isinstance(found_value, BlockPointer):
            raise UnsupportedStatement(f"{name} is {found_value.type}, which is not supported")
        return found_value

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
        """The frame of a region whose parameters have `values`. Raises UnsupportedStatement."""
        if len(names) != len(values):
            raise UnsupportedStatement(
                f"a region of {len(names)} parameters is given {len(values)}"
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
        """The frame of a function of its own, to which of values around it only literals are
        known."""
        literals: dict[str, NamedValue] = {
            n: x
            for n, x in self.values.items()
            if isinstance(x, Expr) and isinstance(x.value, (Constant, Undef))
        }
        return RegionReader(self.b, ChainMap(literals)).inside(names, values)

    def run(self, statements: Sequence[Operation]) -> None:
        """Carry out `statements`. Raises CompilationError."""
        for s in statements:
            with self._at(s):
                results = self._apply(s)
                self._bind(s, results)
                if self.masked_off == "undefined":
                    self._note_loaded(s, results)

    def may_be_undefined(self, x: NamedValue) -> bool:
        """Whether a value depends on what a load leaves undefined, as far as the text says: the
        values that a loop or a branch yields are taken to be defined."""
        return isinstance(x, Expr) and x.value in self.loaded

    def _note_loaded(self, s: Operation, results: Any) -> None:
        operands = (self.values.get(name) for name in s.operands)
        if s.name in _LOADS or any(x is not None and self.may_be_undefined(x) for x in operands):
            values = results if isinstance(results, (tuple, list)) else (results,)
            exprs = [x.value for x in values if isinstance(x, Expr)]
            self.loaded.update(v for v in exprs if isinstance(v, Value))

    def run_region(self, region: Region) -> list[Expr]:
        """Carry out all of a region but its last statement; what that names, with the parts of
        block pointers."""
        if not region.statements:
            return []
        *body, last = region.statements
        if last.name.split(".")[-1] not in ("yield", "return", "condition"):
            self.run([*body, last])
            return []
        self.run(body)
        with self._at(last):
            return parts([self.lookup(name) for name in last.operands])

    def _apply(self, s: Operation) -> Any:
        apply = RULES.get(s.name)
        if apply is None:
            raise UnsupportedStatement(f"op {s.name} is not supported", "TIR1001")
        return apply(self, s)

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

    @contextmanager
    def _at(self, s: Operation) -> Generator[None, None, None]:
        """Ops made inside stand where the user wrote them; errors stand in the text that is
        read."""
        try:
            with self.b.at_location(s.source or s.place):
                yield
        except CompilationError:
            raise
        except UnsupportedStatement as refused:
            raise error_at(refused.message, s.place, refused.code, s.source) from None
        except TileirError as error:
            first = error.diagnostics[0]
            raise error_at(f"{s.name}: {first.message}", s.place, first.code, s.source) from None
        except _UNLIKE_TRITON:
            message = f"{s.name} is not written as Triton writes it"
            raise error_at(message, s.place, source=s.source) from None


def _check_types(s: Operation, exprs: Sequence[NamedValue]) -> None:
    for x, stated in zip(exprs, s.result_types, strict=True):
        if x.type is not stated:
            raise UnsupportedStatement(
                f"the result of {s.name} is {x.type}, and stated to be {stated}"
            )
