"""Formats of files with tables: a file's name says which one it has, unless that is told.

Threads: any; errors: :class:`tfos.errors.BadInputError` with the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tfos import _native
from tfos.errors import BadInputError

#: "jsonl" has a JSON object in each line.
FORMATS = ("tfrecord", "parquet", "csv", "jsonl")
#: What messages call them.
TITLES = {"tfrecord": "TFRecords", "parquet": "Parquet", "csv": "CSV", "jsonl": "JSON"}

_BY_SUFFIX = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "jsonl",  # As Spark calls them.
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
}
#: TensorFlow's programs number the parts of a table: x.tfrecord-00000-of-00010.
_NUMBER = re.compile(r"-\d+-of-\d+$")
#: Ends of the names of compressed files.
_COMPRESSED = (".gz", ".gzip", ".zlib", ".deflate")


def format_of(path: str, told: str | None, otherwise: str = "tfrecord") -> str:
    """The format of a file: as told, else by its name; ``otherwise`` where that does not say.

    Raises :class:`BadInputError` for the name of a compressed file of another format than TFRecord.
    """
    if told is not None:
        return told
    suffix, is_compressed = _suffix_of(path)
    if not is_compressed:
        return _BY_SUFFIX.get(suffix, otherwise)
    kind = _BY_SUFFIX.get(suffix, "tfrecord")
    if kind != "tfrecord":
        raise BadInputError(
            f"{path}: only TFRecords can be compressed, and this name says {TITLES[kind]}; name a "
            "file that is not compressed"
        )
    return kind


def format_of_all(paths: Sequence[str], told: str | None, option: str) -> str:
    """The format of files of one table. A name that does not say it follows those that do.

    Raises :class:`BadInputError` where names say different ones. ``option`` tells the format.
    """
    examples: dict[str, str] = {}
    for path in paths:
        examples.setdefault(format_of(path, told, otherwise=""), path)
    examples.pop("", None)
    if len(examples) > 1:
        (one, path), (other, other_path), *_ = examples.items()
        raise BadInputError(
            f"by their names, {path} has {TITLES[one]} and {other_path} has {TITLES[other]}; "
            f"name files of one format at a time, or give the format of all with {option}"
        )
    return next(iter(examples), "tfrecord")


def check_suffix(target: str) -> None:
    """Raises :class:`BadInputError` for the name of an output with an end that says nothing: it may
    stand for a format that nobody writes."""
    suffix, _ = _suffix_of(target)
    if suffix and suffix not in _BY_SUFFIX:
        raise BadInputError(
            f"{target}: {suffix} says no format; give one with --to, or end the name with one of "
            f"{' '.join(_BY_SUFFIX)}"
        )


def compression_of(path: str, option: str | None) -> str:
    """ "", "GZIP" or "ZLIB": of the option where there is one, else of the file's name."""
    if option is None:
        # The end of a name says it, even where the rest is not UTF-8.
        return _native.compression_of_path(path.encode(errors="replace").decode())
    return _native.compression_named(option)


def _suffix_of(path: str) -> tuple[str, bool]:
    """The end of a file's name that says its format, and whether one of compression follows it."""
    stem, suffix = os.path.splitext(_NUMBER.sub("", path.lower()))
    if suffix in _COMPRESSED:
        return os.path.splitext(stem)[1], True
    return suffix, False
