"""Why an analysis finds nothing, or a transformation does not apply."""

from __future__ import annotations

import attrs

from tileir.errors import Diagnostic, Location, Severity


@attrs.frozen
class Refusal:
    """What an analysis returns in place of its result: the `reason`, a clause, and the `location`
    of the op that is in the way, None where that is the whole function or loop."""

    reason: str
    location: Location | None = None

    def remark(self, code: str, what: str, location: Location | None) -> Diagnostic:
        """The remark that `what` did not happen at `location`, with the op in the way as a note."""
        notes: tuple[Diagnostic, ...] = ()
        if self.location is not None and self.location != location:
            notes = (Diagnostic(code, "because of this op", self.location, Severity.NOTE),)
        return Diagnostic(code, f"{what}: {self.reason}", location, Severity.REMARK, notes)
