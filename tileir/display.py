"""Display of objects: `str` is the text of the language, `repr` one line, HTML for notebooks.

The printer imports the modules whose objects it prints; it is therefore imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tileir.errors import escape

if TYPE_CHECKING:
    from tileir.ir import Block, Function, Global, Module, Parameter, ParameterAttributes
    from tileir.op import Op

_LONGEST = 300
"""Characters of an op that its `repr` shows."""


def module_text(module: Module) -> str:
    """The text of the module."""
    return _printer().print_module(module)


def module_line(module: Module) -> str:
    """The `repr` of a module: its functions and globals."""
    stage = "" if module.stage is None else f", stage {escape(module.stage)}"
    return f"<module: {len(module.functions)} functions, {len(module.globals)} globals{stage}>"


def function_text(function: Function) -> str:
    """The text of the function."""
    return _function_printer().print_function(function)


def function_line(function: Function) -> str:
    """The `repr` of a function: its name, parameters and size."""
    kind = "kernel" if function.kernel else "function"
    body = "declared" if function.is_declaration else f"{len(function.blocks)} blocks"
    count = len(function.parameters)
    return f"<{kind} @{escape(function.name)}: {count} parameters, {body}>"


def parameter_line(parameter: Parameter) -> str:
    """The `repr` of a parameter: its name, type and promises."""
    words = (str(parameter.type), promises_line(parameter.attributes), f"%{parameter.name}")
    return f"<parameter {escape(' '.join(filter(None, words)))}>"


def promises_line(promised: ParameterAttributes) -> str:
    """The promises about a parameter, as the text writes them."""
    numbers = [(w, getattr(promised, w)) for w in ("aligned", "multiple_of")]
    words = [w for w in ("readonly", "writeonly", "noalias") if getattr(promised, w)]
    return " ".join((*(f"{word}({number})" for word, number in numbers if number), *words))


def global_line(variable: Global) -> str:
    """The `repr` of a global: its name and contents."""
    kind = "constant" if variable.constant else "global"
    return f"<{kind} @{escape(variable.name)}: {variable.count} of {variable.element}>"


def block_line(block: Block) -> str:
    """The `repr` of a block: its label and contents."""
    return f"<block {escape(block.label)}: {len(block.ops)} ops>"


def op_text(op: Op) -> str:
    """The op as it stands in text, values by their names."""
    return _function_printer().print_op(op)


def op_line(op: Op) -> str:
    """The op's text, where that is short."""
    text = escape(op_text(op)).replace("\n", " ")
    return f"<op {text}>" if len(text) <= _LONGEST else f"<op {text[:_LONGEST]}...>"


def text_html(ir: Module | Function | Op) -> str:
    """The text of `ir` as HTML with highlighted syntax."""
    return importlib.import_module("tileir.textual.html").text_html(str(ir))


def _printer() -> Any:
    return importlib.import_module("tileir.textual.printer")


def _function_printer() -> Any:
    return importlib.import_module("tileir.textual.function_printer")
