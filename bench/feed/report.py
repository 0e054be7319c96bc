"""How the benchmarks of feed and files show what they measured."""

import datetime
import os
import pathlib
import platform


def publish(script: str, repeat: int, what: str, lines: list[str], page: pathlib.Path | None,
            folder: str = "feed", option: str = "repeat") -> None:
    """Prints the table `lines` with the machine it is from; in `page`, which may be None, it takes
    the place of what `script` of `folder` wrote there before, or goes to its end."""
    machine = (f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
               f"Spark 4.1.4, {datetime.date.today()}, `python bench/{folder}/{script} --{option} {repeat}`")
    text = "\n".join([f"Measured on {machine}. {what}", "", *lines, ""])
    print(text)
    if page is None:
        return
    begin, end = f"<!-- bench/{folder}/{script} -->", "<!-- end -->"
    head, _, rest = (page.read_text() if page.exists() else "# Performance\n\n").partition(begin)
    page.write_text(f"{head}{begin}\n{text}{end}{rest.partition(end)[2]}")
