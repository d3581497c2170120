"""Functions of a text, and the programs they are for tensors of given types and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs

from tileir.builder.contraction import Program, Tensor, TensorFunction, dtype_of, element_and_shape
from tileir.errors import Diagnostic, LaunchError
from tileir.frontends import sources
from tileir.frontends.extras import lark
from tileir.frontends.sources import Source, Wrong
from tileir.frontends.tensor_comprehensions.expressions import kind_named
from tileir.frontends.tensor_comprehensions.frame import DEEPEST, Frame
from tileir.frontends.tensor_comprehensions.statements import compile_statement


@attrs.frozen(eq=False)
class Comprehensions:
    """A parsed program; its functions are attributes."""

    source: Source
    functions: Mapping[str, Any]

    def __getattr__(self, name: str) -> Comprehension:
        if name.startswith("_") or name not in self.functions:
            raise AttributeError(f"there is no function {name}")
        return Comprehension(self, name)

    def __getitem__(self, name: str) -> Comprehension:
        return Comprehension(self, name)


@attrs.frozen(eq=False)
class Comprehension:
    """A function of a program, to be called with arrays and numbers."""

    text: Comprehensions
    name: str

    @property
    def _node(self) -> Any:
        return self.text.functions[self.name]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the computed tensors."""
        return tuple(map(str, self._node.children[2].children))

    def __call__(
        self,
        *arrays: Any,
        on: str | None = None,
        initial: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """The outputs, one array or a tuple, for one array or number per parameter. `initial` has
        the initial contents of outputs that are accumulated without `!`, which are 0 otherwise.
        Raises CompilationError and LaunchError."""
        frame, function = self._compile(arrays)
        before = {} if initial is None else initial
        if not isinstance(before, Mapping):
            raise LaunchError(Diagnostic("TIR0813", "initial is a dict from outputs to arrays"))
        for name in before.keys() - frame.fresh.keys():
            raise LaunchError(Diagnostic("TIR0813", f"nothing is accumulated to {name}"))
        extra = tuple(frame.fresh[name] for name in before)
        values = [before[t.name] for t in extra]
        extended = attrs.evolve(function, inputs=(*function.inputs, *extra))
        return extended(*arrays, *values, on=on, **options)

    def compile(self, *inputs: Any) -> TensorFunction:
        """Compile the function for inputs: arrays, numbers, or pairs (element type, shape).

        Raises CompilationError and LaunchError.
        """
        return self._compile(inputs)[1]

    def _compile(self, inputs: Sequence[Any]) -> tuple[Frame, TensorFunction]:
        frame = Frame(self.text.source, self.text.functions, self.outputs)
        node, source = self._node, self.text.source
        with source.at(node):
            tensors = [_tensor(p, x) for p, x in _each(node, inputs)]
            result = _instance(frame, node, tensors)
            program = Program(tuple(frame.stages), tuple(result))
            _ = program.launches
        return frame, TensorFunction(program, tuple(tensors))


def parse(text: str, file: str = "<string>") -> Comprehensions:
    """Parse a program. Raises CompilationError."""
    source = Source(text, file, "TIR1401")
    tree = sources.parse(source, _grammar())
    functions: dict[str, Any] = {}
    for node in tree.children:
        with source.at(node):
            if str(node.children[0]) in functions:
                raise Wrong("TIR1402", f"{node.children[0]} is defined twice")
        functions[str(node.children[0])] = node
    return Comprehensions(source, functions)


@cache
def _grammar() -> lark.Lark:
    levels = ("OR", "AND", "EQUALITY", "RELATION", "SIGN", "SCALE")
    return sources.grammar("tileir.frontends.tensor_comprehensions", *levels)


# Instances --------------------------------------------------------------------------------------


def _each(node: Any, values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Parameters with their arguments. Raises Wrong."""
    parameters = [] if node.children[1] is None else node.children[1].children
    if len(parameters) != len(values):
        count = len(parameters)
        raise Wrong("TIR1403", f"{node.children[0]} takes {count} tensors, not {len(values)}")
    return list(zip(parameters, values, strict=True))


def _tensor(parameter: Any, item: Any) -> Tensor:
    """The tensor of a parameter for an array. Raises Wrong."""
    kind, sizes, name = parameter.children
    required = kind_named(str(kind))
    element, shape = element_and_shape(item)
    if isinstance(item, (bool, int, float)):
        element = required
    if element is not required:
        raise Wrong("TIR1403", f"{name} is {kind}, and not {dtype_of(element)}")
    return Tensor(str(name), required, shape, by_value=sizes is None and not shape)


def _instance(frame: Frame, node: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a function of tensors; its stages are added to those of `frame`. Raises
    Wrong."""
    for parameter, tensor in _each(node, tensors):
        _bind(frame, parameter, tensor)
    for statement in node.children[3:]:
        with frame.source.at(statement):
            if not _call(frame, statement):
                compile_statement(frame, statement)
    with frame.source.at(node.children[2]):
        outputs = [frame.tensor(name) for name in frame.outputs]
        if any(t in tensors for t in outputs) or len(set(outputs)) != len(outputs):
            raise Wrong("TIR1402", "an output is defined by statements, and is listed once")
    return outputs


def _bind(frame: Frame, parameter: Any, tensor: Tensor) -> None:
    kind, sizes, name = parameter.children
    extents = [] if sizes is None else [str(n.children[0]) for n in sizes.children]
    if str(name) in frame.tensors or str(name) in frame.sizes:
        raise Wrong("TIR1402", f"{name} is defined twice")
    if len(extents) != len(tensor.shape) or kind_named(str(kind)) is not tensor.element:
        result = f"{tensor.element} of {len(tensor.shape)} dimensions"
        raise Wrong("TIR1403", f"{name} is {kind} of {len(extents)} dimensions, not {result}")
    for extent, n in zip(extents, tensor.shape, strict=True):
        if not extent.isdigit():
            frame.bind_size(extent, n, str(name))
        elif int(extent) != n:
            raise Wrong("TIR1403", f"an extent of {name} is {extent}, not {n}")
    frame.tensors[str(name)] = tensor


def _call(frame: Frame, node: Any) -> bool:
    """Whether a statement is a call of a function, which then is inlined. Raises Wrong."""
    if node.data == "several":
        first, names, callee, arguments = node.children
        targets = [str(first), *map(str, names.children)]
        input_names = [] if arguments is None else [str(n) for n in arguments.children]
    else:
        expression = node.children[2]
        if node.data != "scalar" or expression.data != "call":
            return False
        targets, (callee, *call_arguments) = [str(node.children[0])], expression.children
        if callee not in frame.functions:
            return False
        inputs = [n for n in call_arguments if n is not None]
        if any(n.data != "name" for n in inputs):
            raise Wrong("TIR1403", f"{callee} takes names of tensors")
        input_names = [str(n.children[0]) for n in inputs]
    if callee not in frame.functions:
        raise Wrong("TIR1402", f"there is no function {callee}")
    _inline(frame, targets, frame.functions[callee], [frame.tensor(n) for n in input_names])
    return True


def _inline(frame: Frame, targets: Sequence[str], node: Any, tensors: Sequence[Tensor]) -> None:
    outputs = tuple(map(str, node.children[2].children))
    if len(outputs) != len(targets):
        raise Wrong("TIR1403", f"{node.children[0]} gives {len(outputs)} tensors")
    if frame.depth >= DEEPEST:
        raise Wrong("TIR1402", f"calls of {node.children[0]} are more than {DEEPEST} deep")
    inner = Frame(
        frame.source, frame.functions, outputs, stages=frame.stages, depth=frame.depth + 1
    )
    result = _instance(inner, node, tensors)
    for name, tensor in zip(targets, result, strict=True):
        if name in frame.sizes:
            raise Wrong("TIR1402", f"{name} is a size")
        frame.tensors[name] = tensor
