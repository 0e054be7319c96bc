"""Runs the notebooks of examples/notebooks and keeps their outputs in them.

    .venv/bin/python tools/pages/run_notebooks.py [NAME ...]

GitHub and the site of the pages show a notebook as it is stored. So run this after a change of a
notebook: a test compares what outputs were made of with the cells.
"""

from __future__ import annotations

import os
import pathlib
import sys

import nbformat

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.programs.notebooks import NOTEBOOKS, executed  # noqa: E402

if __name__ == "__main__":
    names = sys.argv[1:]
    # Executors need tfos, too.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for path in NOTEBOOKS:
        if not names or path.stem in names:
            nbformat.write(executed(path), path)
            print(path.relative_to(ROOT))
