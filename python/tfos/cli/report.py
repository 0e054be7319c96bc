"""``tfos report``: the page of a running cluster as one HTML file; ``python -m tfos.cli.report``.

The link is read from the terminal or from standard input: other users of a host see command lines,
and the link holds the key to read. Exit codes: 0 the file is written; 1 it is not, and standard
error says why; 2 the command line or the link is wrong.
"""

from __future__ import annotations

import argparse
import getpass
import sys

from tfos.base.page import PageLink, write_whole
from tfos.errors import BadInputError, TfosError

_FETCH_SECONDS = 60.0


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = argparse.ArgumentParser(
        prog="tfos report",
        description="Writes the page of a running cluster as one HTML file. Asks for the link that "
        "the driver printed when the cluster started, or reads it from standard input.",
    )
    made.add_argument(
        "-o", "--output", metavar="FILE", default="tfos-report.html", help="default: %(default)s"
    )
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    try:
        html = PageLink.parse(_link()).fetch_report(_FETCH_SECONDS)
        write_whole(parsed.output, html)
    except BadInputError as error:
        print(f"tfos report: {error}", file=sys.stderr)
        return 2
    except (TfosError, OSError) as error:
        print(f"tfos report: {error}", file=sys.stderr)
        return 1
    print(f"{parsed.output}: {len(html):,} bytes")
    return 0


def _link() -> str:
    """Without an echo: terminals keep what they have shown."""
    if sys.stdin.isatty():
        return getpass.getpass("Link (http://HOST:PORT/#key=KEY): ")
    return sys.stdin.readline()


if __name__ == "__main__":
    sys.exit(main())
