"""What the checks of ``tfos doctor`` are made of."""

from __future__ import annotations

import dataclasses

OK = "ok"
WARN = "warn"
FAIL = "fail"


@dataclasses.dataclass(frozen=True)
class Check:
    """One line of the report. ``advice`` says what to do and is empty when there is nothing to
    do."""

    level: str
    what: str
    found: str
    advice: str = ""
