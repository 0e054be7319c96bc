"""Draws the pictures of docs/architecture.md: one SVG for each of the four flows.

    .venv/bin/python tools/pages/draw_flows.py [--check]

With --check it only compares. What is in the pictures is in flows.py.
"""

from __future__ import annotations

import pathlib
import sys

from flow_picture import draw
from flows import FLOWS

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"


def main() -> int:
    differing = []
    for picture in FLOWS:
        image = IMAGES / f"{picture.name}.svg"
        drawn = draw(picture)
        if "--check" not in sys.argv[1:]:
            image.write_text(drawn)
        elif not image.exists() or image.read_text() != drawn:
            differing.append(
                f"{image.relative_to(ROOT)} is not what tools/pages/draw_flows.py draws: run it"
            )
    print("\n".join(differing), end="\n" if differing else "")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
