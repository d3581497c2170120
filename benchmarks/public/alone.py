"""Import of single modules of packages without the imports that no kernel needs: servers, compiled
extensions, models.

The `__init__` of a package may be skipped: it then only serves as the parent of its modules. All
names of an absent module are false. The kernels, and the functions that launch them, are those of
the package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, MutableSequence
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _False(type):
    """A class that is false and has every attribute. A call with arguments returns the class; a
    call without arguments returns False."""

    def __bool__(cls) -> bool:
        return False

    def __call__(cls, *values: Any, **named: Any) -> Any:
        return cls if values or named else False

    def __getattr__(cls, name: str) -> _False:
        false = _false(name)
        setattr(cls, name, false)  # the same object on the next access
        return false

    def __or__(cls, other: Any) -> Any:
        return other

    __ror__ = __or__

    def __getitem__(cls, _: Any) -> _False:
        return cls


def _false(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _False(name, (), {})


class _Absent(ModuleType):
    """A module in which every name is false."""

    __path__: MutableSequence[str] = []  # so that submodules can be imported

    def __getattr__(self, name: str) -> Any:
        false = _false(name)
        setattr(self, name, false)
        return false


def alone(name: str, bare: Iterable[str] = (), absent: Iterable[str] = ()) -> ModuleType:
    """The module `name`. The `__init__` of packages in `bare` is not run. Modules in `absent` are
    replaced; modules of other projects among them only if they are not installed.

    Raises ImportError if the package is not installed.
    """
    root = name.partition(".")[0]
    for package in (root, *bare):
        if package not in sys.modules:
            spec = find_spec(package)
            if spec is None:
                raise ImportError(f"{package} is not installed")
            sys.modules[package] = module_from_spec(spec)
    for other in absent:
        if other in sys.modules:
            continue
        if other.partition(".")[0] == root or _is_missing(other):
            sys.modules[other] = _Absent(other)
    return import_module(name)


def _is_missing(name: str) -> bool:
    try:
        return find_spec(name) is None
    except (ImportError, ValueError):
        return True
