"""Which TFRecord files a path means, what their directories say of them, and how readers
share them."""

from __future__ import annotations

import datetime
import decimal
import fnmatch
import heapq
import os
import re
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tfos.base.arrow import pa
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.files.interface import FileAccess, as_python_glob, has_wildcard, is_hidden, walk
from tfos.records import files as record_files
from tfos.records import formats

INDEX_SUFFIX = ".tfindex"

_INTEGER = re.compile(r"-?[0-9]{1,20}")
#: As Spark writes and reads doubles: 0.5, 1.0E-4, .5.
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")

#: Hive's name for the directory of rows whose column is null.
_NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"

#: What opening a file is reckoned as when small files are put together, in bytes; Spark's default
#: of spark.sql.files.openCostInBytes.
OPEN_COST_BYTES = 4 << 20


class ListedFile(NamedTuple):
    """A file that is to be read."""

    path: str
    size: int
    #: The values of the directories ``name=value`` above it, from the outside in; None is null.
    directory_values: tuple[tuple[str, str | None], ...] = ()


class FilePart(NamedTuple):
    """What one task reads of a file: all of it where ``part`` is None."""

    file: ListedFile
    part: record_files.Part | None
    size: int


def list_files(
    paths: Sequence[str | os.PathLike[str]], name_filter: str | None = None
) -> list[ListedFile]:
    """The files that paths mean: each a file, a directory, or a pattern of ``* ? [...]``.

    Hidden files and directories (``_SUCCESS``, ``.x``, ``x._COPYING_``) and indexes are left out,
    unless a path names a file itself. Directories are searched to their depth. ``name_filter`` is
    a pattern of file names.

    Raises FileNotFoundError where a path, or a pattern, leads to nothing.
    """
    listed: dict[str, ListedFile] = {}
    for given in paths:
        access, path = access_for(given)
        for found in _expand(access, path):
            for file in _files_of(access, found, path):
                name = os.path.basename(file.path)
                if name_filter is None or fnmatch.fnmatchcase(name, as_python_glob(name_filter)):
                    listed.setdefault(file.path, file)
    return list(listed.values())


def _expand(access: FileAccess, path: str) -> list[str]:
    if access.status(path) is not None:
        return [path]
    if not has_wildcard(path):
        raise FileNotFoundError(2, "there is no such file or directory", path)
    found = [
        match
        for match in access.glob(path)
        if not is_hidden(os.path.basename(match)) and not match.endswith(INDEX_SUFFIX)
    ]
    if not found:
        raise FileNotFoundError(2, "nothing matches the pattern", path)
    return found


def _files_of(access: FileAccess, found: str, given: str) -> list[ListedFile]:
    status = access.status(found)
    if status is None:
        raise FileNotFoundError(2, "it was deleted meanwhile", found)
    # The directories above a file or directory that is named itself say nothing.
    base = found if found == given else _fixed_part(given)
    if not status.is_directory:
        return [ListedFile(found, status.size, _values_between(base, found))]
    return [
        ListedFile(file.path, file.size, _values_between(base, file.path))
        for file in walk(access, found)
        if not file.path.endswith(INDEX_SUFFIX)
    ]


def _fixed_part(pattern: str) -> str:
    """The directory above the first part of a pattern that has a wildcard."""
    parts = pattern.split("/")
    first = next(number for number, part in enumerate(parts) if has_wildcard(part))
    return "/".join(parts[:first]) or "/"


def _values_between(base: str, path: str) -> tuple[tuple[str, str | None], ...]:
    below = os.path.relpath(os.path.dirname(path), base) if base != path else "."
    values = []
    for part in below.split("/"):
        name, is_value, value = part.partition("=")
        if is_value and name:
            value = urllib.parse.unquote(value)
            values.append((urllib.parse.unquote(name), None if value == _NULL_DIRECTORY else value))
    return tuple(values)


def directory_columns(files: Sequence[ListedFile]) -> dict[str, str]:
    """The columns that directories ``name=value`` give, and the types that Spark infers for them:
    "int", "bigint", "double", "date" or "string". What it takes for a timestamp or a decimal is a
    string here.

    Raises :class:`BadInputError` when not all files lie below directories of the same names.
    """
    if not files:
        return {}
    names = tuple(name for name, _ in files[0].directory_values)
    for file in files:
        if tuple(name for name, _ in file.directory_values) != names:
            raise BadInputError(
                f"{files[0].path} and {file.path} do not lie below directories of the same columns "
                f"({', '.join(names) or 'none'}; "
                f"{', '.join(name for name, _ in file.directory_values) or 'none'}): read "
                f"them apart"
            )
    return {name: _kind_of({dict(file.directory_values)[name] for file in files}) for name in names}


def _kind_of(values: set[str | None]) -> str:
    """What all the values of a column are, as far as they are not null."""
    known = [value for value in values if value is not None]
    if not known:
        return "string"
    if all(_is_integer(value, 32) for value in known):
        return "int"
    if all(_is_integer(value, 64) for value in known):
        return "bigint"
    # A double can't hold each bigint, so both together are strings.
    if all(_is_integer(value, 32) or _is_fraction(value) for value in known):
        return "double"
    return "date" if all(map(_is_date, known)) else "string"


#: What a file system or a URI may take for something else, as Spark and Hive have it.
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 32)}


def directory_of(values: Iterable[tuple[str, Any]]) -> str:
    """The directories ``name=value`` for values of columns, one below the other."""
    return "/".join(f"{_escape(name)}={_value_text(value)}" for name, value in values)


def _value_text(value: Any) -> str:
    if value is None or value == "":
        return _NULL_DIRECTORY
    return _escape(str(value).lower() if isinstance(value, bool) else str(value))


def _escape(text: str) -> str:
    return "".join(
        f"%{ord(character):02X}" if character in _ESCAPED else character for character in text
    )


def _is_fraction(value: str) -> bool:
    """Whether Spark takes it for a double. A number without decimals is a decimal to it."""
    if not _NUMBER.fullmatch(value):
        return False
    exponent = decimal.Decimal(value).as_tuple().exponent
    return isinstance(exponent, int) and exponent < 0


def _is_date(value: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False  # Such as the 30th of February, which stays text.
    return True


def _is_integer(value: str, bits: int) -> bool:
    most = 1 << (bits - 1)
    return bool(_INTEGER.fullmatch(value)) and -most <= int(value) < most


def split_files(
    files: Sequence[ListedFile], part_bytes: int, compression: str | None
) -> list[FilePart]:
    """The files in parts of about ``part_bytes``, where they have an index; else whole."""
    parts: list[FilePart] = []
    for file in files:
        access, path = access_for(file.path)
        is_plain = not formats.compression_of(path, compression)
        if is_plain and file.size > part_bytes and access.status(path + INDEX_SUFFIX) is not None:
            parts.extend(
                FilePart(file, part, part.end - part.begin)
                for part in record_files.split(access.native_path(path), part_bytes)
            )
        else:
            parts.append(FilePart(file, None, file.size))
    return parts


def infer_schema(
    files: Sequence[ListedFile],
    *,
    record_type: str,
    compression: str | None,
    sample: int,
    strings: bool,
    mode: str = "failfast",
    validation: str | None = None,
) -> pa.Schema:
    """The columns of the first ``sample`` records of the files together.

    In other modes than "failfast" bad records are passed over.

    Args:
        compression: of an option; None takes it from the files' names.
        strings: bytes are strings where all of the sample are UTF-8, else binary.
        validation: which CRCs are compared, as of :class:`tfos.records.Reader`.
    """
    inference = record_files.SchemaSample(record_type, strings=strings)
    for file in files:
        if inference.count >= sample:
            break
        access, path = access_for(file.path)
        inference.add(
            access.native_path(path),
            sample - inference.count,
            compression=compression,
            mode=mode,
            validation=validation,
        )
    return inference.schema()


def pack_parts(parts: Sequence[FilePart], task_bytes: int) -> list[list[FilePart]]:
    """Parts in the order given, put together to tasks of up to so many bytes."""
    tasks: list[list[FilePart]] = []
    room = 0
    for part in parts:
        if not tasks or part.size > room:
            tasks.append([])
            room = task_bytes
        tasks[-1].append(part)
        room -= part.size + OPEN_COST_BYTES
    return tasks


def share_of(sizes: Sequence[tuple[str, int]], share: int, shares: int) -> list[str]:
    """The names of one of ``shares`` shares that are about equal in bytes; each name is in one.

    Everybody who asks with the same files gets the same. The largest file goes to the share with
    the fewest bytes so far (the fewest files, the lowest number, when equal). Names decide between
    files of one size. Within a share they are in the order of their names.
    """
    if not 0 <= share < shares:
        raise BadInputError(f"there is no share {share} of {shares}")
    loads: list[tuple[int, int, int]] = [(0, 0, number) for number in range(shares)]
    mine: list[str] = []
    for name, size in sorted(sizes, key=lambda item: (-item[1], item[0])):
        load, count, number = heapq.heappop(loads)
        if number == share:
            mine.append(name)
        heapq.heappush(loads, (load + size, count + 1, number))
    return sorted(mine)
