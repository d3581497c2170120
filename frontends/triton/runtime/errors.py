"""`triton.runtime.errors`: errors by Triton's names."""

from tileir.errors import InterpretError as InterpreterError
from tileir.frontends.triton.errors import AutotunerError, OutOfResources, PTXASError, TritonError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
