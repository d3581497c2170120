"""Blocks, functions, globals and modules: the containers of ops. All immutable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tileir.display import (
    block_line,
    function_line,
    function_text,
    global_line,
    module_line,
    module_text,
    parameter_line,
    promises_line,
    text_html,
)
from tileir.errors import Location
from tileir.types import AddressSpace, Type, as_tuple

if TYPE_CHECKING:
    from tileir.op import Op, Successor
    from tileir.values import Constant, Value

VERSION = (1, 0)
"""The newest version of the `.tir` text and its semantics: (major, minor)."""

AttributeValue: TypeAlias = int | float | bool | str | tuple[int, ...] | tuple[str, ...]
"""The types of values of function, parameter and module attributes."""


class Visibility(Enum):
    """Whether other modules see a symbol."""

    PUBLIC = "public"
    PRIVATE = "private"


class Linkage(Enum):
    """The treatment of two definitions of one name by the linker.

    - `EXTERNAL`: two definitions are an error.
    - `LINKONCE`: equal definitions are merged.
    - `WEAK`: a definition of another linkage takes precedence.
    """

    EXTERNAL = "external"
    LINKONCE = "linkonce"
    WEAK = "weak"


class InlineHint(Enum):
    """Hint to the inliner."""

    AUTO = "auto"
    ALWAYS = "alwaysinline"
    NEVER = "noinline"


@attrs.frozen(weakref_slot=False)
class ParameterAttributes:
    """Promises about a function parameter; 0 and False promise nothing.

    - `aligned`: the address is a multiple of this number of bytes.
    - `multiple_of`: the integer is a multiple of this number.
    - `readonly`, `writeonly`: the function only loads, or only stores, through the pointer.
    - `noalias`: the memory is not accessed through another parameter.
    """

    aligned: int = 0
    multiple_of: int = 0
    readonly: bool = False
    writeonly: bool = False
    noalias: bool = False

    def __repr__(self) -> str:
        return f"<promises: {promises_line(self) or 'none'}>"


@attrs.frozen(eq=False)
class Parameter:
    """A function parameter: the value that it defines, and the promises about it."""

    value: Value
    attributes: ParameterAttributes = ParameterAttributes()
    location: Location | None = None

    def __repr__(self) -> str:
        return parameter_line(self)

    @property
    def type(self) -> Type:
        """The type of the value."""
        return self.value.type

    @property
    def name(self) -> str | None:
        """The name of the value in the text, without `%`; None if it has none."""
        return self.value.name


@attrs.frozen(eq=False, weakref_slot=False)
class Block:
    """A basic block: straight-line ops that end in a terminator.

    `parameters` receive one argument per incoming edge; the text writes them as `phi`s at the head.
    """

    label: str
    parameters: tuple[Value, ...] = attrs.field(default=(), converter=as_tuple)
    ops: tuple[Op, ...] = attrs.field(default=(), converter=as_tuple)
    comments: tuple[str, ...] = ()
    location: Location | None = None

    def __repr__(self) -> str:
        return block_line(self)

    @property
    def terminator(self) -> Op:
        """The op that ends the block. Raises IndexError for an empty block."""
        return self.ops[-1]

    @property
    def successors(self) -> tuple[Successor, ...]:
        """The edges to other blocks, as the terminator states them; () for a block that returns."""
        return self.ops[-1].successors if self.ops else ()


@attrs.frozen(eq=False)
class Function:
    """A kernel or device function: a header, and blocks by label, the entry first.

    A function without blocks is a declaration. `results` are its return types; a kernel has none.
    `attributes` are named settings such as `num_warps`.
    """

    name: str
    parameters: tuple[Parameter, ...] = attrs.field(default=(), converter=as_tuple)
    results: tuple[Type, ...] = attrs.field(default=(), converter=as_tuple)
    blocks: Mapping[str, Block] = attrs.field(factory=dict)
    kernel: bool = False
    visibility: Visibility = Visibility.PUBLIC
    linkage: Linkage = Linkage.EXTERNAL
    inline: InlineHint = InlineHint.AUTO
    alignment: int = 0
    attributes: Mapping[str, AttributeValue] = attrs.field(factory=dict)
    comments: tuple[str, ...] = ()
    location: Location | None = None

    @property
    def is_declaration(self) -> bool:
        """Whether the function has no blocks."""
        return not self.blocks

    @property
    def entry(self) -> Block:
        """The first block. Raises StopIteration for a declaration."""
        return next(iter(self.blocks.values()))

    @property
    def ops(self) -> Iterator[Op]:
        """Every op, block by block."""
        return chain.from_iterable([block.ops for block in self.blocks.values()])

    def evolve(self, **changes: Any) -> Function:
        """Return a copy with fields changed."""
        return Function(**{**_fields_of_function(self), **changes})

    def __str__(self) -> str:
        return function_text(self)

    def __repr__(self) -> str:
        return function_line(self)

    def _repr_html_(self) -> str:
        return text_html(self)

    def with_blocks(self, blocks: Mapping[str, Block]) -> Function:
        """Return a copy with `blocks`, or the function itself if they are the same objects in the
        same order."""
        same = len(blocks) == len(self.blocks) and all(
            a is b for a, b in zip(blocks.values(), self.blocks.values(), strict=True)
        )
        return self if same else self.evolve(blocks=dict(blocks))


@attrs.frozen(eq=False)
class Global:
    """A global array of `count` elements of type `element` in address space `space`.

    Kernels cannot write a `constant` global. `initial` is a tuple with one literal per element, or
    a single literal for all elements. It is None if the global is defined in another module or
    filled before the launch.
    """

    name: str
    element: Type
    count: int
    constant: bool = False
    initial: tuple[Constant, ...] | None = None
    visibility: Visibility = Visibility.PUBLIC
    linkage: Linkage = Linkage.EXTERNAL
    alignment: int = 0
    external: bool = False
    comments: tuple[str, ...] = ()
    location: Location | None = None
    space: int = attrs.field(default=-1, kw_only=True)
    """The address space: global memory by default."""

    def __attrs_post_init__(self) -> None:
        if self.space < 0:
            object.__setattr__(self, "space", usual_space(self.constant))

    def __repr__(self) -> str:
        return global_line(self)


def usual_space(constant: bool) -> AddressSpace:
    """The address space of a global that states none."""
    return AddressSpace.CONSTANT if constant else AddressSpace.GLOBAL


@attrs.frozen(eq=False)
class Module:
    """A unit of compilation: functions and globals by name, metadata, and a version.

    `metadata` are the module's named attributes, such as `run.x = "..."`. `stage` is None for
    target-independent modules. In other modules it names the backend stage that wrote them; the
    stability promise does not cover these modules.
    """

    functions: Mapping[str, Function] = attrs.field(factory=dict)
    globals: Mapping[str, Global] = attrs.field(factory=dict)
    metadata: Mapping[str, AttributeValue] = attrs.field(factory=dict)
    version: tuple[int, int] = VERSION
    stage: str | None = None
    source: str | None = None
    """Name of the file the module came from."""
    comments: tuple[str, ...] = ()
    """Comments after the last symbol."""
    header_comments: tuple[str, ...] = ()
    """Comments before the version line and the metadata."""

    def evolve(self, **changes: Any) -> Module:
        """Return a copy with fields changed."""
        return Module(**{**_fields_of_module(self), **changes})

    def __str__(self) -> str:
        return module_text(self)

    def __repr__(self) -> str:
        return module_line(self)

    def _repr_html_(self) -> str:
        return text_html(self)

    def with_functions(self, functions: Mapping[str, Function]) -> Module:
        """Return a copy with `functions`, or the module itself if they are the same objects in the
        same order."""
        same = len(functions) == len(self.functions) and all(
            a is b for a, b in zip(functions.values(), self.functions.values(), strict=True)
        )
        return self if same else self.evolve(functions=dict(functions))

    def kernel(self, name: str | None = None) -> Function:
        """Return the kernel called `name`, or the only kernel if `name` is None. Raises
        KeyError."""
        result = [f for f in self.functions.values() if f.kernel and name in (None, f.name)]
        if len(result) != 1:
            names = ", ".join(f.name for f in self.functions.values() if f.kernel) or "none"
            if name is None and len(result) > 1:
                raise KeyError(f"the module has several kernels, name one of: {names}")
            raise KeyError(f"no kernel{'' if name is None else f' {name}'}; there are: {names}")
        return result[0]


def _fields_of(kind: type[Any]) -> Callable[[Any], dict[str, Any]]:
    """The function that reads all fields of a `kind` by one C call: stages make many copies, and
    `attrs.evolve` reads the fields one by one."""
    names = [field.name for field in attrs.fields(kind)]
    read = attrgetter(*names)
    return lambda instance: dict(zip(names, read(instance), strict=True))


_fields_of_function, _fields_of_module = _fields_of(Function), _fields_of(Module)
