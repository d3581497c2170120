"""Why an analysis finds nothing, or a transformation does not apply."""

from __future__ import annotations

import attrs

from tileir.errors import Diagnostic, Location, Severity


@attrs.frozen
class Refusal:
    """The result of an analysis that does not apply.

    `reason` is a clause; `location` is that of the op that prevents it, or None for the whole
    function or loop.
    """

    reason: str
    location: Location | None = None

    def remark(self, code: str, what: str, location: Location | None) -> Diagnostic:
        """The remark that `what` did not happen at `location`, with the op in the way as a note."""
        notes: tuple[Diagnostic, ...] = ()
        if self.location is not None and self.location != location:
            notes = (Diagnostic(code, "because of this op", self.location, Severity.NOTE),)
        return Diagnostic(code, f"{what}: {self.reason}", location, Severity.REMARK, notes)
