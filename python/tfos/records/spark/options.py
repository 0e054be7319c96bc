"""Options of the format ``tfrecord`` (docs/tfrecords.md), and what they mean for reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tfos import _native
from tfos.base.choices import check_choice
from tfos.errors import BadInputError
from tfos.records import formats
from tfos.records.spark import types

#: Bytes that a task reads at most, where the files can be put together and split so; Spark's
#: default of spark.sql.files.maxPartitionBytes.
MAX_PARTITION_BYTES = 128 << 20

#: Where bad records go in mode permissive if the schema has it, as in Spark's own sources; Spark's
#: default of spark.sql.columnNameOfCorruptRecord, which a session may have changed.
BAD_COLUMN = "_corrupt_record"

READ_OPTIONS = {
    "path",
    "paths",
    "recordtype",
    "compression",
    "mode",
    "samplerecords",
    "inferstrings",
    "pathglobfilter",
    "recursivefilelookup",
    "maxpartitionbytes",
    "validation",
    "columnnameofcorruptrecord",
}
WRITE_OPTIONS = {
    "path",
    "recordtype",
    "compression",
    "compressionlevel",
    "index",
    "ifexists",
    "partitioncolumns",
    "partitionoverwritemode",
}


class Options(Mapping[str, str]):
    """Options by their names in any case, as Spark 4 gives them to data sources."""

    def __init__(self, given: Mapping[str, Any]):
        self._values = {name.lower(): str(value) for name, value in given.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Plan(NamedTuple):
    """How files are read. All of it was checked."""

    record_type: str
    compression: str | None
    mode: str
    validation: str | None
    #: The column that bad records go to; the schema need not have it.
    bad_column: str | None


def plan_reading(options: Mapping[str, str], bad_column: str = BAD_COLUMN) -> Plan:
    """The plan for what may be read; :class:`BadInputError` names what can't be.

    ``bad_column`` is what the session calls it.
    """
    mode = _native.record_mode_named(options.get("mode", "failfast"))
    compression = options.get("compression")
    formats.compression_of("", compression)
    record_type = types.record_type_of(options.get("recordType", "Example"))
    keeps = mode == "permissive" and record_type != "ByteArray"
    if "columnNameOfCorruptRecord" in options and not keeps:
        raise BadInputError(
            "columnNameOfCorruptRecord goes with mode permissive, and not with recordType ByteArray"
        )
    named = options.get("columnNameOfCorruptRecord", bad_column) if keeps else None
    return Plan(record_type, compression, mode, options.get("validation"), named)


def paths_of(options: Mapping[str, str]) -> list[str]:
    """What ``load`` was called with."""
    if "paths" in options:
        return list(json.loads(options["paths"]))
    return [path_of(options)]


def path_of(options: Mapping[str, str]) -> str:
    """What ``save`` was called with, or ``load`` with one path."""
    if not options.get("path"):
        raise BadInputError('a path is missing, as in load("/data/digits") or save("/data/digits")')
    return options["path"]


def check_options(options: Mapping[str, str], known: set[str], action: str) -> None:
    """Raises :class:`BadInputError` for options that there are not. Those of the other direction
    change nothing, as with the jar: a program may give both the same."""
    unknown = sorted(name for name in options if name.lower() not in READ_OPTIONS | WRITE_OPTIONS)
    if unknown:
        raise BadInputError(
            f"TFRecords can't be {action} with the option {', '.join(unknown)}; there are "
            f"{', '.join(sorted(known - {'path', 'paths'}))}"
        )


def overwrites_all(options: Mapping[str, str]) -> bool:
    """Whether overwriting replaces all that is there, and not only the directories of columns that
    are written to. By the names of Spark's spark.sql.sources.partitionOverwriteMode."""
    mode = options.get("partitionOverwriteMode", "static").lower()
    check_choice("partitionOverwriteMode", mode, ("static", "dynamic"))
    return mode == "static"


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    return _native.record_flag(name, options.get(name, str(default)))


def count(options: Mapping[str, str], name: str, default: int) -> int:
    """At least 1."""
    return _native.record_count(name, options[name]) if name in options else default


def compression_level(options: Mapping[str, str]) -> int | None:
    """From 0 to 9; None leaves it to zlib."""
    given = options.get("compressionLevel")
    return None if given is None else _native.compression_level(given)
