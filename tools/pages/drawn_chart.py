"""What the scripts have in common that draw a figure from the tables of docs/performance.md."""

import pathlib
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"


def write_or_check(image: pathlib.Path, chart: Callable[[str], str]) -> None:
    """Writes the figure that ``chart`` draws from the page's text; with ``--check`` on the command
    line only compares, and ends the program where the two differ."""
    drawn = chart(PAGE.read_text())
    if "--check" not in sys.argv[1:]:
        image.write_text(drawn)
    elif not image.exists() or image.read_text() != drawn:
        sys.exit(f"{image.relative_to(ROOT)} differs from the page's table: run {sys.argv[0]}")
