"""``tfos examples``: programs to start from, out of this installation; ``python -m
tfos.cli.examples``.

Exit codes: 0 all is well; 1 a file is there already, or can't be written: standard error says
which; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from tfos import errors
from tfos.cli.arguments import Parser
from tfos.errors import BadInputError

_FOLDER = Path(errors.__file__).parent / "_examples"
_DEFAULT_DIRECTORY = "tfos-examples"
#: Folders whose programs do nothing without arguments, or one after another.
_WITH_ARGUMENTS = frozenset({"conversion", "emr", "standalone"})


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    whole = Parser(prog="tfos examples", description="Copy programs to start from into a folder")
    commands = whole.add_subparsers(required=True, metavar="COMMAND", dest="command")
    said = "Print the name of each example, and what it shows"
    commands.add_parser("list", help=said, description=said)
    said = "Copy all examples, or some, into a folder; replace nothing"
    made = commands.add_parser("copy", help=said, description=said)
    named: Any = made.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="an example, such as quickstart, or a folder of them, such as legacy; default: all",
    )
    named.completed_by = _names
    made.add_argument(
        "--to",
        metavar="DIRECTORY",
        default=_DEFAULT_DIRECTORY,
        help="where to; made if it is not there; default: %(default)s",
    )
    return whole


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    try:
        if parsed.command == "list":
            _list()
        else:
            _copy(parsed.names, Path(parsed.to))
    except BadInputError as error:
        print(f"tfos examples: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tfos examples: {error}", file=sys.stderr)
        return 1
    return 0


def files() -> list[Path]:
    """All files of the examples, below their folder: programs at the top first."""
    found = []
    # pip compiles what it installs.
    for at, folders, names in os.walk(_FOLDER):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [Path(at, name).relative_to(_FOLDER) for name in names]
    if not found:
        raise FileNotFoundError(f"this installation of tfos has no examples: {_FOLDER} is missing")
    return sorted(found, key=lambda path: (len(path.parts) > 1, path))


def _names() -> list[str]:
    """What ``tfos completion`` offers: the programs, and the folders of programs. It also works in
    an installation without examples."""
    try:
        there = [path for path in files() if path.suffix in (".py", ".ipynb")]
    except FileNotFoundError:
        return []
    folders = {str(folder) for path in there for folder in path.parents if folder.name}
    return [*(str(path.with_suffix("")) for path in there), *sorted(folders)]


def _list() -> None:
    shown = {str(path): _about(_FOLDER / path) for path in files()}
    width = max(map(len, shown))
    for name, about in shown.items():
        if about:
            print(f"{name:{width}}  {about}")


def _about(path: Path) -> str:
    """What a program says about itself in its first sentence; "" for other files."""
    if path.suffix == ".py":
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    elif path.suffix == ".ipynb":
        cells = json.loads(path.read_text("utf-8"))["cells"]
        said = "".join(cells[0]["source"]).lstrip("# ")
    else:
        return ""
    first = re.split(r"(?<=\.)\s|\n\n", said, maxsplit=1)[0]
    return " ".join(first.split()).rstrip(".")


def _chosen(names: list[str]) -> list[Path]:
    there = files()
    if not names:
        return there
    chosen: list[Path] = []
    for name in names:
        wanted = Path(name)
        fitting = [
            path
            for path in there
            if wanted.parts and wanted in (path, path.with_suffix(""), *path.parents)
        ]
        if not fitting:
            raise BadInputError(
                f"there is no example {name!r}; `tfos examples list` shows all{_advice(name)}"
            )
        chosen += fitting
    return list(dict.fromkeys(chosen))


def _advice(name: str) -> str:
    """For a name that is meant as the folder to copy to; else ""."""
    if not name or ("/" not in name and not Path(name).is_dir()):
        return ""
    return f". To copy to a folder, write --to {shlex.quote(name)}"


def _copy(names: list[str], directory: Path) -> None:
    chosen = _chosen(names)
    for path in chosen:
        if os.path.lexists(directory / path):
            raise FileExistsError(
                f"{directory / path} is there already, and nothing was copied; "
                "`--to` names another folder"
            )
    for path in chosen:
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with (_FOLDER / path).open("rb") as source, target.open("xb") as copy:
            shutil.copyfileobj(source, copy)
        shutil.copymode(_FOLDER / path, target)
        print(target)
    programs = [
        path for path in chosen if path.suffix == ".py" and path.parts[0] not in _WITH_ARGUMENTS
    ]
    begin = Path("quickstart.py")
    if programs:
        program = shlex.quote(str(directory / (begin if begin in programs else programs[0])))
        print(f"\nRun one, on this machine:\n  {shlex.quote(sys.executable)} {program}")
        print(f"On a cluster:\n  tfos submit --master yarn {program}")
    if Path("README.md") in chosen:
        print(f"{directory / 'README.md'} says what each shows.")


if __name__ == "__main__":
    sys.exit(main())
