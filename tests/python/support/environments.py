"""Python environments for `tfos submit` to pack."""

from __future__ import annotations

import pathlib
import subprocess
import sys


def tiny_environment(directory: pathlib.Path) -> pathlib.Path:
    """A virtual environment below ``directory``, of a few files, that sees this one's packages."""
    made = directory / "tiny"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    (packages,) = made.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(
        "\n".join(entry for entry in sys.path if "site-packages" in entry)
    )
    return made
