"""The packages of the extra `frontends`, by which all languages with texts are parsed."""

from __future__ import annotations

try:
    import lark
except ModuleNotFoundError as error:
    message = f"reading programs needs {error.name}: pip install 'tileir[frontends]'"
    raise ModuleNotFoundError(message, name=error.name) from error

__all__ = ["lark"]
