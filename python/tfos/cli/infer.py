"""``tfos infer``: rows of files through a SavedModel; ``python -m tfos.cli.infer``.

Prints a JSON object: the file that was written and its rows. Exit codes: 0 all is well; 1 a model,
columns or rows do not fit, or a file is missing or there already: standard error says which; 2 the
command line is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tfos.cli.arguments import Parser, at_least, complain
from tfos.errors import BadInputError, TfosError

try:
    from tfos import inference
    from tfos.base.arrow import pa
    from tfos.records import conversion, formats, listing
    from tfos.records.leaves import leaf_type
except ImportError as error:
    sys.exit(f"tfos infer: {error}")

T = TypeVar("T")

#: Batches that are read before the model has room for them.
_AHEAD = 4
_MOST_THREADS = 8


class _UsageError(BadInputError):
    """The command line is wrong, in a way that argparse can't see."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    # TensorFlow tells much about itself as it starts.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        return _describe(parsed) if parsed.input is None else _infer(parsed)
    except (TfosError, OSError) as error:
        complain("infer", error)
        return 2 if isinstance(error, _UsageError) else 1


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = Parser(
        prog="tfos infer",
        description="Run the rows of files through a SavedModel. Without --input: print the\n"
        "model's inputs and outputs",
    )
    model = made.add_argument_group("model")
    model.add_argument("--model", required=True, metavar="DIR", help="a SavedModel")
    model.add_argument(
        "--signature",
        default=inference.DEFAULT_SIGNATURE,
        help="the signature to run; default: %(default)s",
    )
    model.add_argument(
        "--tags",
        default=inference.DEFAULT_TAGS,
        help="tags of the graph to load, with commas between them; default: %(default)s",
    )
    model.add_argument(
        "--op-library",
        action="append",
        default=[],
        metavar="FILE",
        help="a library with custom ops of the model, as often as you like",
    )
    model.add_argument(
        "--batch-size",
        type=at_least(1),
        default=inference.BATCH_SIZE,
        help="rows at a time; default: %(default)s",
    )
    model.add_argument(
        "--threads",
        type=at_least(1),
        default=min(_MOST_THREADS, len(os.sched_getaffinity(0))),
        help="batches that are computed at a time, all of them in memory; default: "
        f"one for each core, {_MOST_THREADS} at most",
    )
    files = made.add_argument_group("files")
    files.add_argument(
        "--input", nargs="+", metavar="PATH", help="files, directories, or patterns of * ? [...]"
    )
    files.add_argument("--output", metavar="PATH", help="the file to write; goes with --input")
    files.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
    files.add_argument(
        "--format",
        choices=formats.FORMATS,
        help="format of the input; default: by the ends of the names, otherwise tfrecord",
    )
    files.add_argument(
        "--output-format",
        choices=formats.FORMATS,
        help="format of the output; default: by the end of the name, otherwise as the input",
    )
    files.add_argument(
        "--record-type",
        default="Example",
        choices=("Example", "SequenceExample"),
        help="what TFRecords hold; default: %(default)s",
    )
    files.add_argument(
        "--compression",
        choices=("none", "gzip", "zlib"),
        help="compression of TFRecords; default: by the ends of the names (.gz, .zlib)",
    )
    columns = made.add_argument_group("columns")
    columns.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="COLUMN=INPUT",
        help="a column of the files for an input, as often as you like; INPUT,INPUT for values "
        "and row splits of a ragged one. Default: the columns of the inputs' names",
    )
    columns.add_argument(
        "--output-map",
        action="append",
        default=[],
        metavar="OUTPUT=COLUMN",
        help="an output and the column to write it to, as often as you like; default: all "
        "outputs, under their names",
    )
    columns.add_argument(
        "--binary-output",
        action="append",
        default=[],
        metavar="OUTPUT",
        help="an output whose strings are bytes, not text, as often as you like",
    )
    columns.add_argument("--keep", action="store_true", help="also write the columns of the input")
    return made


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise _UsageError(f"{option} {pair}: write it as NAME=NAME")
        if name in pairs:
            raise _UsageError(f"{option}: {name} is there twice")
        pairs[name] = value
    return pairs


def _describe(parsed: Any) -> int:
    model = _model(parsed)
    print(
        json.dumps(
            {
                "model": model.path,
                "signature": model.signature,
                "tags": model.tags,
                "inputs": model.inputs,
                "outputs": model.outputs,
            },
            ensure_ascii=False,
        )
    )
    return 0


def _model(parsed: Any) -> inference.Model:
    return inference.Model(
        parsed.model, parsed.tags, parsed.signature, tuple(parsed.op_library), threads=1
    )


def _infer(parsed: Any) -> int:
    if parsed.output is None:
        raise _UsageError("--output is missing: the file to write")
    model = _model(parsed)
    sources = [file.path for file in listing.list_files(parsed.input)]
    if not sources:
        raise BadInputError(f"{', '.join(parsed.input)}: there is no file in it")
    kind = formats.format_of_all(sources, parsed.format, "--format")
    output_kind = formats.format_of(parsed.output, parsed.output_format, otherwise=kind)
    conversion.check_output(parsed.output, sources, parsed.overwrite)
    mapping = {
        column: tuple(tensor.split(",")) for column, tensor in _pairs("--map", parsed.map).items()
    }
    schema = conversion.schema_of(
        sources,
        kind,
        parsed.record_type,
        parsed.compression,
        # They must be text, whatever it looks like. In JSON all text is.
        hints=dict.fromkeys(_columns_of("string", model, mapping), pa.string())
        if kind == "csv"
        else None,
        strings=parsed.keep,
        whole=parsed.keep,
    )
    if kind in ("csv", "jsonl") and not parsed.keep:
        schema = _with_fractions(schema, _columns_of("float", model, mapping))
    plan = model.on(
        schema,
        mapping,
        _pairs("--output-map", parsed.output_map),
        binary_outputs=parsed.binary_output,
        batch_size=parsed.batch_size,
        keep=parsed.keep,
        plain=output_kind == "csv",  # It has no lists.
    )
    conversion.check_target(plan.schema, output_kind, parsed.output, "Example")
    if not parsed.keep:
        schema = pa.schema([schema.field(name) for name in plan.columns])
    # A model hardly ever answers the same number twice.
    distinct = [
        field.name for field in plan.output_schema if pa.types.is_floating(leaf_type(field.type))
    ]
    batches = _ahead(
        conversion.read(
            sources,
            kind,
            schema,
            parsed.record_type,
            parsed.compression,
            batch_rows=parsed.batch_size,
            whole=parsed.keep,
        )
    )
    with conversion.replacing(parsed.output) as temporary:
        rows = conversion.write(
            temporary,
            output_kind,
            plan.schema,
            plan.run(batches, parsed.threads),
            "Example",
            formats.compression_of(parsed.output, None),
            distinct=distinct,
        )
        # Somebody else may have been faster.
        conversion.check_output(parsed.output, sources, parsed.overwrite)
    print(json.dumps({"file": parsed.output, "rows": rows}))
    return 0


def _columns_of(kind: str, model: inference.Model, mapping: dict[str, tuple[str, ...]]) -> set[str]:
    """The columns for inputs of a type that begins so."""
    columns = {tensors[0]: column for column, tensors in mapping.items()} or {
        n: n for n in model.inputs
    }
    return {
        columns[name]
        for name, type_ in model.inputs.items()
        if type_.startswith(kind) and name in columns
    }


def _with_fractions(schema: pa.Schema, columns: set[str]) -> pa.Schema:
    """The schema with floats for whole numbers in these columns: later ones may not be whole."""
    return pa.schema(
        [
            field.with_type(_fractions_of(field.type)) if field.name in columns else field
            for field in schema
        ]
    )


def _fractions_of(kind: pa.DataType) -> pa.DataType:
    """A type with floats for whole numbers, also in lists."""
    if pa.types.is_list(kind):
        return pa.list_(_fractions_of(kind.value_type))
    return pa.float64() if pa.types.is_integer(kind) else kind


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, read in a thread of their own while earlier ones are used."""
    end: Any = object()
    with ThreadPoolExecutor(1, thread_name_prefix="tfos-infer-reader") as reader:
        coming = deque(reader.submit(next, items, end) for _ in range(_AHEAD))
        try:
            while (item := coming.popleft().result()) is not end:
                coming.append(reader.submit(next, items, end))
                yield item
        finally:
            for later in coming:
                later.cancel()


if __name__ == "__main__":
    sys.exit(main())
