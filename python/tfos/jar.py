"""Where the jar for the JVM of this installation is (docs/jvm.md)."""

from __future__ import annotations

from pathlib import Path

from tfos.errors import TfosError


def path() -> str:
    """Absolute path of the jar inside the installed package."""
    directory = Path(__file__).resolve().parent / "jars"
    found = sorted(directory.glob("tfos_*.jar"))
    if not found:
        raise TfosError(
            f"{directory} has no jar: this copy of the package was built without. "
            "Install the wheel (pip install .) where Maven is installed.")
    return str(found[0])
