"""LLVM IR as text: types, literals, the body of a function and the order of its instructions; also
the operators of PTX's memory instructions."""

from __future__ import annotations

import re
import struct
from collections.abc import (
    Callable,
    Generator,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import zip_longest
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from tileir.errors import Location
from tileir.types import AddressSpace, Element, Pointer, Scalar, Type
from tileir.values import decode

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_operands import AccessAttributes
    from tileir.backend.nvptx.debug_lines import LineTable

SPACES = {0: "", 1: ".global", 3: ".shared", 4: ".const", 5: ".local"}
"""PTX's names of address spaces; nothing for generic addresses."""
_NC = ("", "ca", "cg", "cs")
"""Cache operators that go with `.nc` (PTX ISA, "ld.global.nc")."""

LOOP_NODE = 4_000_000_000
"""The metadata nodes of loops are those from here on; line tables have the numbers below."""

_FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


@cache
def llvm_type(type: Type) -> str:
    """The LLVM type of a scalar or pointer. Floats of 8 bits are represented by their bits."""
    if isinstance(type, Pointer):
        return f"ptr addrspace({int(type.space)})" if type.space else "ptr"
    if isinstance(type, Scalar):
        return _FLOATS.get(type.name, f"i{type.bits}")
    raise TypeError(f"{type} is no machine type")


def operators(access: AccessAttributes, space: int) -> str:
    """The state space and the operators of an access, in PTX's order. Only accesses of global
    memory have cache policies."""
    where = SPACES[space]
    if access.volatile and space not in (AddressSpace.CONSTANT, AddressSpace.LOCAL):
        return f".volatile{where}"
    if space not in (AddressSpace.GENERIC, AddressSpace.GLOBAL):
        return where
    eviction = f".L1::{access.eviction}" if access.eviction else ""
    cached = access.constant and space == AddressSpace.GLOBAL and access.cache in _NC
    cache = f".{access.cache}" if access.cache else ""
    hint = ".L2::cache_hint" if has_cache_hint(access, space) else ""
    return where + cache + (".nc" if cached else "") + eviction + hint


def has_cache_hint(access: AccessAttributes, space: int) -> bool:
    """Whether an access passes its eviction priority to the L2 cache as an operand (PTX ISA,
    "Cache Eviction Priority Hints")."""
    return bool(access.eviction) and space == AddressSpace.GLOBAL and not access.volatile


def unroll_hint(count: int) -> tuple[str, str]:
    """The metadata that unroll a loop by `count` (LLVM Language Reference,
    "llvm.loop.unroll.count")."""
    node, property = LOOP_NODE + count, LOOP_NODE + 100 + count
    hint = f'!{{!"llvm.loop.unroll.count", i32 {count}}}'
    return f"!{node} = distinct !{{!{node}, !{property}}}", f"!{property} = {hint}"


def pointer_class(space: int) -> str:
    """The inline assembly constraint of a pointer. Pointers to shared and constant memory have 32
    bits (LLVM's option `nvptx-short-ptr`)."""
    return "l" if space in (AddressSpace.GENERIC, AddressSpace.GLOBAL) else "r"


def global_name(name: str) -> str:
    """The name of a global in PTX, whose identifiers have no dots (PTX ISA, "Identifiers")."""
    return _identifier("g", name)


def kernel_name(name: str) -> str:
    """The name of a kernel in PTX. It is the kernel's own name if that is a PTX identifier, not a
    reserved word, and not a name that the generated code uses (`global_name`, shared memory, system
    functions)."""
    plain = name.isascii() and name.replace("$", "_").isidentifier() and name not in ("_", "$")
    if plain and not _TAKEN(name):
        return name
    return _identifier("k", name)


_TAKEN = re.compile(
    r"[gk]x?\d*\$.*|shared|WARP_SZ|__.*|vprintf|printf|malloc|free|cuda[A-Z].*"
).fullmatch
"""PTX's own names; those of `_identifier`, with or without a kernel's number; a block's shared
memory; the functions of the system, of libdevice and of LLVM, most of which begin with two
underscores."""


def _identifier(kind: str, name: str) -> str:
    """`name` as a PTX identifier. Each dot becomes `_$_`. If that would be ambiguous, or `name` has
    other special characters, each special character becomes its code between dollar signs, and the
    prefix differs."""
    if re.fullmatch(r"[A-Za-z0-9_.]*|((?!_\$_)[A-Za-z0-9_$])*", name):
        return f"{kind}${name.replace('.', '_$_')}"
    return f"{kind}x$" + re.sub(r"[^A-Za-z0-9_]", lambda odd: f"${ord(odd[0]):x}$", name)


def symbol(name: str) -> str:
    """`name` as a symbol of LLVM IR, in quotes if needed. LLVM allows no NUL in names: it is
    replaced by two characters, and so is the first of these two."""
    if re.fullmatch(r"[A-Za-z$._-][A-Za-z0-9$._-]*", name):
        return f"@{name}"
    name = name.replace("\1", "\1b").replace("\0", "\1a")
    odd = re.sub(rb"[^A-Za-z0-9]", lambda odd: b"\\%02X" % odd[0][0], name.encode())
    return f'@"{odd.decode()}"'


def memory_type(type: Element) -> str:
    """The LLVM type of an element in memory, where an i1 takes a byte."""
    return "i8" if type.bits < 8 else llvm_type(type)


def intrinsic_suffix(element: Element) -> str:
    """The type suffix of an overloaded intrinsic."""
    names = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
    kind = llvm_type(element)
    if isinstance(element, Pointer):
        return f"p{int(element.space)}"
    return names.get(kind, kind)


def literal(element: Element, bits: int) -> str:
    """The LLVM constant of type `llvm_type(element)` whose representation is `bits`."""
    if isinstance(element, Pointer):
        return "null" if bits == 0 else f"inttoptr (i64 {bits} to {llvm_type(element)})"
    kind = llvm_type(element)
    if kind == "i1":
        return "true" if bits else "false"
    if kind.startswith("i"):
        return str(bits - (1 << element.bits) if bits >> (element.bits - 1) else bits)
    if kind in ("half", "bfloat"):
        return f"0x{'H' if kind == 'half' else 'R'}{bits:04X}"
    if kind == "double":
        return f"0x{bits:016X}"
    return f"0x{_double_bits(element, bits):016X}"


def _double_bits(element: Scalar, bits: int) -> int:
    """The bits of the f64 that equals a float: LLVM writes float literals this way. NaNs keep their
    payload."""
    if bits & 0x7F800000 == 0x7F800000:
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    return int.from_bytes(struct.pack(">d", float(decode(element, bits))), "big")


_Once: TypeAlias = tuple[list[str], dict[Hashable, str], dict[str, str], set[str]]
"""The state of `once`: the lines, values by key, values by text, and all values."""


class Body:
    """The instructions of one function, in order, with labels and unique names."""

    no_structure = "undef"
    """The structure that returned values are inserted into."""

    def __init__(self, prefix: str = "t", scope: str = "", labels: str = "") -> None:
        self.f8_conversion = False
        self.labels = labels
        """What labels begin with."""
        self.scope = scope
        """What the names of this kernel's own functions and globals begin with."""
        self.lines: list[str] = []
        self.declarations: dict[str, None] = {}
        self.table: LineTable | None = None
        """The table of source locations; None where line information is off."""
        self.place = ""
        """What follows every instruction: where it comes from."""
        self.label = "entry"
        self.at_entry: list[str] = []
        self._prefix, self._count = prefix, 0
        self._values: dict[Hashable, str] = {}
        self._entry_only = False
        self._written: dict[str, str] = {}
        self._written_at_entry: dict[str, str] = {}
        self._fixed: set[str] = set()
        """What is computed at the entry."""
        self.movable: set[str] = set()
        """What instructions without effects define, which depend on none."""
        self._constant_additions: dict[str, tuple[str, str]] = {}
        """The operands of additions of a constant that do not wrap, by the result."""
        self._truncated: dict[str, str] = {}
        """The operands of truncations, by the result."""
        self._outer: _Once | None = None
        """While `once` does not compute at the function's entry: where it did."""

    def fresh(self) -> str:
        """A new name of a value."""
        self._count += 1
        return f"%{self._prefix}{self._count}"

    def fresh_label(self, hint: str) -> str:
        """A new label."""
        self._count += 1
        return f"{self.labels}{hint}.{self._count}"

    def emit(self, text: str) -> str:
        """Append an instruction that defines a new value."""
        self._count += 1
        name = f"%{self._prefix}{self._count}"
        if self._entry_only:
            self.at_entry.append(f"  {name} = {text}{self.place}")
            self._fixed.add(name)
        else:
            self.lines.append(f"  {name} = {text}{self.place}")
        return name

    def pure(self, text: str) -> str:
        """The value of an instruction without effects. It is appended, unless this block or the
        function's entry already contains it."""
        name = self._written_at_entry.get(text)
        if name is None and not self._entry_only:
            name = self._written.get(text)
        if name is None:
            at_entry = self._entry_only or self.is_fixed(text)
            outer, self._entry_only = self._entry_only, at_entry
            name = self.emit(text)
            self._entry_only = outer
            (self._written_at_entry if at_entry else self._written)[text] = name
            if not at_entry:
                self.movable.add(name)
        return name

    def is_fixed(self, text: str) -> bool:
        """Whether `pure` computes `text` at the function's entry, where all its operands exist."""
        return False

    def line(self, text: str) -> None:
        """Append an instruction that defines no value."""
        self.lines.append(f"  {text}{self.place}")

    def come_from(self, location: Location | None) -> None:
        """Set the source location of the instructions that follow."""
        if self.table is not None:
            self.place = self.table.place(location)

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.label = label
        self._written.clear()

    def start_block(self, label: str) -> int:
        """Begin a block of the function. The result is the index of the line where its phis go."""
        self.start(label)
        self.lines.append("")
        return len(self.lines) - 1

    def branch(self, label: str, unroll: int = 1) -> None:
        """Branch to `label`. The target decides how a loop is unrolled."""
        self.line(f"br label %{label}")

    def branch_if(self, condition: Any, then: str, otherwise: str, unroll: int = 1) -> None:
        """Branch to `then` if `condition`, an i1, is true, else to `otherwise`. The target decides
        how a loop is unrolled."""
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def return_values(self, types: Sequence[Type], handles: Sequence[Any]) -> None:
        """Return from the function. Several values are returned as one structure."""
        kinds = [self.returned_type(t) for t in types]
        if len(kinds) <= 1:
            self.line(f"ret {kinds[0]} {handles[0]}" if kinds else "ret void")
            return
        structure, kind = self.no_structure, f"{{{', '.join(kinds)}}}"
        for i, (k, x) in enumerate(zip(kinds, handles, strict=True)):
            structure = self.emit(f"insertvalue {kind} {structure}, {k} {x}, {i}")
        self.line(f"ret {kind} {structure}")

    def returned_type(self, type: Type) -> str:
        """LLVM's type of a value that a function returns."""
        return llvm_type(type)

    def unreachable(self) -> None:
        """State that control does not reach this point."""
        self.line("unreachable")

    def declare(self, text: str) -> None:
        """Record a declaration that the module needs."""
        self.declarations[text] = None

    def _read(self, register: str) -> str:
        """The value of a special register."""
        self.declare(f"declare i32 @llvm.nvvm.read.ptx.sreg.{register}()")
        return self.emit(f"call i32 @llvm.nvvm.read.ptx.sreg.{register}()")

    def once(self, key: Hashable, make: Callable[[], str]) -> str:
        """The value of `key`, which `make` computes at the function's entry on the first call."""
        value = self._values.get(key)
        if value is None:
            outer, self._entry_only = self._entry_only, True
            value = self._values[key] = make()
            self._entry_only = outer
        return value

    @contextmanager
    def recomputing(self) -> Generator[None, None, None]:
        """Within the context, values of `once` are computed at its start, and dropped at its
        end."""
        place, here = len(self.lines), ([], {}, {}, set[str]())
        self._written.clear()
        self.lines.append("")
        with self._computing(here):
            yield
        self.lines[place] = "\n".join(here[0])

    @contextmanager
    def keeping(self) -> Generator[None, None, None]:
        """Within the context, which may be inside `recomputing`, values of `once` are computed at
        the function's entry."""
        with self._computing(self._outer) if self._outer else nullcontext():
            yield

    @contextmanager
    def _computing(self, where: _Once) -> Generator[None, None, None]:
        """Let `once` add its code to `where`."""
        outer = self._outer
        before = (self.at_entry, self._values, self._written_at_entry, self._fixed)
        self.at_entry, self._values, self._written_at_entry, self._fixed = where
        self._outer = None if outer else before
        yield
        self.at_entry, self._values, self._written_at_entry, self._fixed = before
        self._outer = outer

    def constant(self, element: Element, bits: int) -> str:
        """The literal of `element` with representation `bits`."""
        return literal(element, bits)


# Folding of integer arithmetic, so that LLVM has less to parse: operations on two literals, and
# operations whose result is one of the operands.


def fold_constants(name: str, element: Element, a: str, b: str) -> str | None:
    """The operand that equals `name` of `a` and `b`, one of which is a literal, or a literal; None
    if there is none. `name` is one of LLVM's binary instructions, without flags."""
    if not isinstance(element, Scalar) or not element.is_integer:
        return None
    x, y = _number(a), _number(b)
    if x is not None and y is not None:
        compute = _COMPUTED.get(name)
        return None if compute is None else _literal(element, compute(x, y))
    if y is not None:
        return _by_literal(name, element, a, y)
    return _by_literal(name, element, b, x) if x is not None and name in _COMMUTATIVE else None


def is_literal(handle: str) -> bool:
    """Whether a handle is a literal: neither a value nor a symbol."""
    return handle[0] not in "%@"


def _by_literal(name: str, element: Scalar, a: str, y: int) -> str | None:
    """`name` of `a` and the number `y`, if that is `a` or a literal; else None."""
    if y == 0:
        return a if name in _ZERO_KEEPS else "0" if name in ("mul", "and") else None
    if y == 1 and element.bits > 1:
        return a if name in ("mul", "udiv", "sdiv") else None
    return a if y == -1 and name == "and" else None


def _number(handle: str) -> int | None:
    """The number that a literal states. It is negative if the highest bit is set."""
    return int(handle) if handle[0] in "-0123456789" and "x" not in handle else None


def _literal(element: Scalar, number: int) -> str:
    return literal(element, number & ((1 << element.bits) - 1))


_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor"})
_ZERO_KEEPS = frozenset({"add", "sub", "or", "xor", "shl", "lshr", "ashr"})
_COMPUTED: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


# The order of instructions ------------------------------------------------------------------------


_NAME = re.compile(r"%[\w.]+")

_FEWER = 0.8
"""The part of the values alive at once at which the order of a basic block changes. Divergences of
rows, at 0.5 to 0.8, gained 5 to 25 % on an H200. Above it the results were mixed, as a block has
other reasons for its order, such as loads in flight: gated norms, at 1.1, lost 6 %."""

_FEW = 0.25
"""The part of the most values alive in any basic block up to which a block stays as it is: others
decide how many registers a thread takes. The loop of a matmul took 198, not 168, after the order of
what precedes it changed."""

_Instruction: TypeAlias = tuple[str, str, list[str]]
"""A line, the value that it defines or nothing, and the names that it reads."""


def depth_first(
    lines: Sequence[str], movable: AbstractSet[str], alternating: bool = False
) -> list[str]:
    """Reorder `lines`, the LLVM IR of a function, depth first. The instructions that define
    `movable` values have no effects and depend on none. Each of them is moved before the first
    instruction that needs it; those that one operand needs come before those of the next operand.
    All other instructions keep their order. A basic block is reordered only if clearly fewer values
    are then live at once. Dead instructions of reordered blocks are removed, such as the addresses
    of all elements of a vector but the first, since they would keep their operands live. If
    `alternating`, consecutive stores are interleaved where fewer values are then live.

    A lowering rule emits its instructions for all elements of a thread before the next rule runs,
    so between two rules all elements are live. ptxas starts from the order of the PTX and changes
    little of it. A Kullback-Leibler divergence of rows takes 85 registers in the order of the
    rules, and 32 in this order.
    """
    originals = _blocks(lines)
    candidates = _without_dead(originals, movable)
    orders = _better_orders(candidates, movable, alternating)
    if not any(orders):
        return list(lines)
    # A block that keeps its order keeps its dead instructions, so their operands must stay.
    blocks, kept = candidates, list[_Instruction]()
    for original, candidate, order in zip(originals, candidates, orders, strict=True):
        if not order and len(candidate) < len(original):
            kept += original
    if kept:
        blocks = _without_dead(originals, movable, kept)
    ordered: list[str] = []
    for original, candidate, block, order in zip(
        originals, candidates, blocks, orders, strict=True
    ):
        if order and block != candidate:
            _, order = _best_order(block, movable, alternating)
        ordered += [line for line, _, _ in order or original]
    return ordered


def _blocks(lines: Iterable[str]) -> list[list[_Instruction]]:
    """The instructions of each basic block, including its label."""
    blocks: list[list[_Instruction]] = [[]]
    add, names_of = blocks[-1].append, _NAME.findall
    for line in lines:
        if line[-1:] == ":":
            blocks.append([(line, "", [])])
            add = blocks[-1].append
            continue
        names = names_of(line)
        add((line, names[0], names[1:]) if line[2:3] == "%" else (line, "", names))
    return blocks


def _better_orders(
    blocks: Sequence[Sequence[_Instruction]], movable: AbstractSet[str], alternating: bool
) -> list[list[_Instruction]]:
    """For each basic block, another order in which clearly fewer values are live at once; empty if
    there is none."""
    counts = list(map(_most_alive, blocks))
    few = _FEW * max(counts)

    def better(block: Sequence[_Instruction], alive: int) -> list[_Instruction]:
        if alive <= few:
            return []
        most = _FEWER * alive
        least, order = _best_order(block, movable, alternating, most)
        return order if order != block and least <= most else []

    return list(map(better, blocks, counts))


def _without_dead(
    blocks: list[list[_Instruction]], movable: AbstractSet[str],
    readers: Sequence[_Instruction] = (),
) -> list[list[_Instruction]]:  # fmt: skip
    """`blocks` without the instructions that define `movable` values that no kept instruction and
    none of `readers` needs."""
    used = {x for block in blocks for line, _, names in block if " = phi " in line for x in names}
    used.update(x for _, _, names in readers for x in names)
    result: list[list[_Instruction]] = []
    for block in reversed(blocks):
        kept: list[_Instruction] = []
        for instruction in reversed(block):
            _, name, operands = instruction
            if name not in movable or name in used:
                used.update(operands)
                kept.append(instruction)
        result.append(kept[::-1])
    return result[::-1]


def _best_order(
    block: Sequence[_Instruction], movable: AbstractSet[str], alternating: bool, limit: float = inf
) -> tuple[int, list[_Instruction]]:
    """The order of a basic block in which fewer values are live at once, after their number. If
    `alternating`, the better of two orders. Numbers above `limit` are not compared."""
    choices = (False, True) if alternating else (False,)
    orders = [_reorder(block, movable, grouped) for grouped in choices]
    return min(((_most_alive(order, limit), order) for order in orders), key=itemgetter(0))


def _reorder(
    block: Sequence[_Instruction], movable: AbstractSet[str], grouped: bool
) -> list[_Instruction]:
    """Reorder a basic block, whose last instruction is the terminator. Values that only other
    blocks need come just before the terminator. If `grouped`, consecutive stores are interleaved:
    the instructions for the first operand of each come before those for the second operand of each.
    A gated gradient, for example, stores two results that share most of their intermediate values.
    """
    waiting: dict[str, _Instruction] = {}
    ordered: list[_Instruction] = []
    group: list[_Instruction] = []

    def emit_group() -> None:
        operands = zip_longest(*(names for _, _, names in group))
        _move([x for names in operands for x in names if x in waiting], waiting, ordered)
        ordered.extend(group)
        group.clear()

    for instruction in block[:-1]:
        _, name, operands = instruction
        if name in movable:
            waiting[name] = instruction
        elif name or not grouped:
            if group:
                emit_group()
            _move([x for x in operands if x in waiting], waiting, ordered)
            ordered.append(instruction)
        else:
            group.append(instruction)
    if group:
        emit_group()
    _move(list(waiting), waiting, ordered)
    return [*ordered, *block[-1:]]


def _move(names: list[str], waiting: dict[str, _Instruction], ordered: list[_Instruction]) -> None:
    """Move the instructions that define `names`, each after the ones that it needs, from `waiting`
    to `ordered`."""
    stack, entered = names[::-1], set[str]()
    while stack:
        name = stack[-1]
        instruction = waiting.get(name)
        if instruction is None:
            stack.pop()
            continue
        if name not in entered:
            needed = [x for x in instruction[2] if x in waiting]
            if needed:
                entered.add(name)
                stack += reversed(needed)
                continue
        ordered.append(instruction)
        del waiting[stack.pop()]


def _most_alive(block: Sequence[_Instruction], limit: float = inf) -> int:
    """The largest number of values, of those that a basic block defines, that are live after any of
    its instructions; any number above `limit` if that is. Operands of phis do not count."""
    first = next((i for i, x in enumerate(block[1:], 1) if " = phi " not in x[0]), len(block))
    defined = {name for _, name, _ in block}
    alive, most = set[str](), 0
    for _, name, operands in reversed(block[first:]):
        if len(alive) > most:
            most = len(alive)
            if most > limit:
                return most
        alive.discard(name)
        for operand in operands:
            if operand in defined:
                alive.add(operand)
    return max(most, len(alive))
