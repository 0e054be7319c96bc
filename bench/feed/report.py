"""How the benchmarks of feed and files show what they measured.

A benchmark's table has columns titled `TARGET`, which say what is aimed at. They are printed for the
developer that runs it, and left out of the published page.
"""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import sys
from collections.abc import Iterable, Iterator

#: The title of columns that hold what a benchmark aims at.
TARGET = "to reach"


def make_ready(folder: pathlib.Path) -> None:
    """Has TensorFlow say little, and Spark's Python workers and nodes be this Python, with the
    modules of `folder`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    )


def without_targets(lines: Iterable[str]) -> Iterator[str]:
    """The lines of Markdown `lines` without the columns of its tables that are titled `TARGET`."""
    dropped: set[int] | None = None
    for line in lines:
        if not line.startswith("|"):
            dropped = None
            yield line
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if dropped is None:  # The first line of a table has its titles.
            dropped = {place for place, title in enumerate(cells) if title == TARGET}
        if not dropped:
            yield line
            continue
        kept = [cell for place, cell in enumerate(cells) if place not in dropped]
        yield "|---" * len(kept) + "|" if set(line) <= set("|-") else f"| {' | '.join(kept)} |"


def publish(
    script: str,
    repeat: int,
    what: str,
    lines: list[str],
    page: pathlib.Path | None,
    folder: str = "feed",
    option: str = "repeat",
) -> None:
    """Prints the table `lines` with the machine it is from. Without its targets, the table then
    replaces in `page`, which may be None, the one that `script` of `folder` wrote there before, or
    is appended."""
    machine = (
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"Spark {importlib.metadata.version('pyspark')}, {datetime.date.today()}, `python bench/{folder}/{script} --{option} {repeat}`"
    )
    text = "\n".join([f"Measured on {machine}. {what}", "", *lines, ""])
    print(text)
    if page is None:
        return
    begin, end = f"<!-- bench/{folder}/{script} -->", "<!-- end -->"
    head, _, rest = (page.read_text() if page.exists() else "# Performance\n\n").partition(begin)
    published = "\n".join(without_targets(text.split("\n")))
    page.write_text(f"{head}{begin}\n{published}{end}{rest.partition(end)[2]}")
