"""The console script ``tfos``: becomes the native executable of this installation."""

from __future__ import annotations

import os
import sys

from tfos.base import executable
from tfos.errors import TfosError


def main() -> None:
    try:
        program = executable.path()
    except TfosError as error:
        sys.exit(str(error))
    # It may lie where no interpreter is: pip install --user, or --target.
    environment = {**os.environ, "TFOS_PYTHON": sys.executable}
    os.execve(program, [program, *sys.argv[1:]], environment)
