"""Where the native executable ``tfos`` of this installation is."""

from __future__ import annotations

import os
from pathlib import Path

from tfos.errors import TfosError


def path() -> str:
    """Absolute path of the executable inside the installed package."""
    executable = Path(__file__).resolve().parent.parent / "bin" / "tfos"
    if not os.access(executable, os.X_OK):
        raise TfosError(
            f"{executable} is missing: this copy of the package was not built. "
            "Install the wheel (pip install .) on every machine that runs executors."
        )
    return str(executable)
