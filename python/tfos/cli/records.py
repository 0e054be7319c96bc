"""``tfos records``: TFRecord files on the command line; ``python -m tfos.cli.records``.

Prints one JSON object a line. Exit codes: 0 all is well; 1 a file is damaged, missing or does not
fit, which standard error says with file and offset; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

from tfos.cli.arguments import Parser, at_least, complain
from tfos.errors import BadInputError, TfosError
from tfos.files.access import access_for

try:
    from tfos import records
    from tfos.records import conversion, formats, listing
    from tfos.records import files as record_files
    from tfos.records.listing import ListedFile
except ImportError as error:
    sys.exit(f"tfos records: {error}")

#: Rows that ``head`` prints unless it is told.
HEAD_ROWS = 10


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the output has enough, as in ``| head``. Python would complain at a flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (TfosError, OSError) as error:
        sys.stdout.flush()
        complain("records", error)
        return 1


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    whole = Parser(prog="tfos records", description="Show, check, index and convert TFRecord files")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[Any], int], help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help)
        made.set_defaults(run=run)
        made.add_argument(
            "paths",
            nargs="+",
            metavar="PATH",
            help="a file, a directory, or a pattern of * ? [...]",
        )
        made.add_argument(
            "--compression",
            choices=("none", "gzip", "zlib"),
            help="compression of the files; default: by the ends of their names (.gz, .zlib)",
        )
        return made

    def rows(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made.add_argument(
            "--record-type",
            default="Example",
            choices=("Example", "SequenceExample"),
            help="what the records hold; default: %(default)s",
        )
        return made

    for name, help, default in (
        ("cat", "Print each tf.Example as JSON", None),
        ("head", "Print the first tf.Examples as JSON", HEAD_ROWS),
    ):
        made = rows(command(name, _cat, help))
        made.add_argument(
            "-n",
            "--rows",
            type=at_least(0),
            default=default,
            help=f"how many to print; default: {default or 'all'}",
        )
        made.add_argument(
            "--mode",
            default="failfast",
            choices=("failfast", "dropmalformed", "permissive"),
            help="what to do with bad records: fail, leave them out, or print rows of nulls; "
            "default: %(default)s",
        )
    command("count", _count, "Count the records of each file, without checking their data")
    made = rows(command("schema", _schema, "Print the columns that a sample of the records has"))
    made.add_argument(
        "--sample",
        type=at_least(1),
        default=record_files.SAMPLE_RECORDS,
        metavar="RECORDS",
        help="how many records to look at; default: %(default)s",
    )
    command("verify", _verify, "Check all CRCs of each file")
    made = command("index", _index, "Put an index beside each file, so that Spark can split it")
    made.add_argument(
        "--interval",
        type=at_least(1),
        metavar="BYTES",
        help="bytes between entries; default: 1 MiB",
    )
    made = rows(
        command("convert", _convert, "Convert TFRecord, Parquet, CSV or JSON files into one")
    )
    for side, what, otherwise in (
        ("from", "files", "otherwise"),
        ("to", "output", "without an end"),
    ):
        made.add_argument(
            f"--{side}",
            choices=formats.FORMATS,
            dest=f"{side}_format",
            help=f"format of the {what}; default: by the end of the name, {otherwise} tfrecord",
        )
    made.add_argument("--output", required=True, metavar="PATH", help="the file to write")
    made.add_argument(
        "--output-compression",
        choices=("none", "gzip", "zlib"),
        help="compression of TFRecords in the output; default: by the end of its name",
    )
    made.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    return whole


def _files(parsed: Any) -> list[ListedFile]:
    files = listing.list_files(parsed.paths)
    if not files:
        raise BadInputError(f"{', '.join(parsed.paths)}: there is no file in it")
    return files


def _opened(parsed: Any) -> Iterator[tuple[str, str]]:
    """What is to be opened, and its compression."""
    for file in _files(parsed):
        access, path = access_for(file.path)
        yield access.native_path(path), formats.compression_of(path, parsed.compression)


def _print(value: Any) -> None:
    # Where the terminal does not take all characters, JSON has another way to write them.
    takes_all = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=not takes_all)
    # Only in strings: json.dumps leaves control characters above 31 as they are.
    print(re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text))


def _cat(parsed: Any) -> int:
    files = _files(parsed)
    schema = listing.infer_schema(
        files,
        record_type=parsed.record_type,
        compression=parsed.compression,
        sample=max(parsed.rows or 0, record_files.SAMPLE_RECORDS),
        strings=True,
        mode=parsed.mode,
    )
    schema = record_files.nullable(schema)
    problems: list[str] = []

    def rows() -> Generator[dict[str, Any], None, None]:
        for path, compression in _opened(parsed):
            reader = records.Reader(
                path,
                schema,
                record_type=parsed.record_type,
                compression=compression,
                mode=parsed.mode,
                batch_rows=parsed.rows,  # Others need not fit the columns of the sample.
            )
            try:
                for batch in reader:
                    yield from batch.to_pylist()
            finally:  # Also where enough rows are printed.
                if problem := reader.counts["first_problem"]:
                    problems.append(problem)

    with contextlib.closing(rows()) as found:
        for row in itertools.islice(found, parsed.rows):
            _print({name: _plain(value) for name, value in row.items()})
    for problem in problems:
        complain("records", problem)
    return 1 if problems else 0


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes as {"base64": ...}, numbers that are none as strings."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _count(parsed: Any) -> int:
    return _survey(parsed, "lengths", ("records",))


def _verify(parsed: Any) -> int:
    return _survey(
        parsed, "full", ("records", "bad_records", "lost", "record_bytes", "longest_bytes")
    )


def _survey(parsed: Any, validation: str, shown: tuple[str, ...]) -> int:
    failed = False
    for path, compression in _opened(parsed):
        survey = records.verify(path, compression=compression, validation=validation)
        _print({"file": path, **{name: survey[name] for name in shown}})
        if survey["first_problem"]:
            failed = True
            sys.stdout.flush()
            complain("records", survey["first_problem"])
    return 1 if failed else 0


def _schema(parsed: Any) -> int:
    schema = listing.infer_schema(
        _files(parsed),
        record_type=parsed.record_type,
        compression=parsed.compression,
        sample=parsed.sample,
        strings=True,
    )
    for field in schema:
        _print({"name": field.name, "type": str(field.type), "nullable": field.nullable})
    return 0


def _index(parsed: Any) -> int:
    for path, compression in _opened(parsed):
        if compression:
            raise BadInputError(f"{path} is compressed, and only files that are not can be split")
        _print({"file": path, "records": records.make_index(path, interval_bytes=parsed.interval)})
    return 0


def _convert(parsed: Any) -> int:
    rows = conversion.convert(
        [file.path for file in _files(parsed)],
        parsed.output,
        source_format=parsed.from_format,
        target_format=parsed.to_format,
        record_type=parsed.record_type,
        compression=parsed.compression,
        target_compression=parsed.output_compression,
        overwrite=parsed.overwrite,
    )
    _print({"file": parsed.output, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
