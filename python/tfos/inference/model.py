"""SavedModels over Arrow record batches: one engine in C++ for ``tfos.ml``, ``tfos infer`` and
programs.

    model = tfos.inference.Model("/models/digits")           # reads the signature, loads nothing
    for batch in model.on(schema).run(batches):               # record batches of the outputs
        ...

What fits which input, and what an output becomes, is in docs/inference.md. Neither the Python of
TensorFlow nor protobuf is needed: only the libraries that come with the package ``tensorflow``.

Errors: :class:`tfos.errors.BadInputError` for a model, columns or rows that do not fit;
:class:`tfos.errors.TfosError` where TensorFlow fails; :class:`OSError`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, Union

from tfos import _native
from tfos.base.arrow import pa
from tfos.errors import BadInputError, TfosError
from tfos.files import hadoop_client
from tfos.files.access import access_for, scheme_of
from tfos.files.interface import FileAccess
from tfos.inference import plain_columns
from tfos.inference.sessions import Sessions

T = TypeVar("T")
R = TypeVar("R")

DEFAULT_SIGNATURE = "serving_default"
DEFAULT_TAGS = "serve"
#: Rows that a model gets at a time unless it is told.
BATCH_SIZE = 1_024
#: Of results that are made at a time, where that is more than one batch of the model.
_RESULT_BYTES = 4 << 20
#: Of a file of assets, which may be large, at a time.
_PIECE_BYTES = 1 << 20

#: Column -> input, or (input of the values, input of the row splits) for a ragged tensor.
InputMapping = Mapping[str, Union[str, Sequence[str]]]


@dataclasses.dataclass(frozen=True)
class Model:
    """A signature of a SavedModel. Made by reading its files; may be pickled.

    Args:
        path: of the directory, on this host or a file system of Hadoop's; a string afterwards.
        tags: of the graph in it, separated by commas.
        signature: its name.
        op_libraries: files with ops of the model's own, which must be on every host that runs it.
        threads: that compute; 0 for one for each core of the host.
    """

    path: str | os.PathLike[str]
    tags: str = DEFAULT_TAGS
    signature: str = DEFAULT_SIGNATURE
    op_libraries: tuple[str, ...] = ()
    threads: int = 0
    #: What the files held when they were read.
    stamp: str = dataclasses.field(init=False, repr=False, compare=False)
    _found: Any = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Executors run elsewhere than in the driver's working directory.
        access, path = access_for(self.path)
        set_field = object.__setattr__  # frozen for everybody else
        set_field(self, "path", path)
        set_field(self, "op_libraries", tuple(os.path.abspath(name) for name in self.op_libraries))
        content = _read(access, path)
        try:
            found = _native.find_signature(content, self.tag_list, self.signature)
        except BadInputError as error:
            raise BadInputError(f"{path}: {error}") from error
        set_field(self, "_found", found)
        set_field(self, "stamp", _stamp(access, path, content))

    @property
    def tag_list(self) -> list[str]:
        """The tags of the graph, as a list: ``["serve"]``."""
        return [tag.strip() for tag in self.tags.split(",") if tag.strip()]

    @property
    def inputs(self) -> dict[str, str]:
        """Name -> type, as ``float32[?, 784]``."""
        return dict(self._found.inputs)

    @property
    def outputs(self) -> dict[str, str]:
        """Name -> type, as for ``inputs``."""
        return dict(self._found.outputs)

    def on(
        self,
        schema: pa.Schema,
        input_mapping: InputMapping | None = None,
        output_mapping: Mapping[str, str] | None = None,
        *,
        binary_outputs: Sequence[str] = (),
        batch_size: int = BATCH_SIZE,
        keep: bool = False,
        plain: bool = False,
    ) -> Inference:
        """What the model makes of columns; raises :class:`BadInputError`, with all that was
        expected and found, if they don't fit. Nothing is loaded yet.

        Args:
            schema: of the columns that there are.
            input_mapping: column -> input; None: each input has the column of its name.
            output_mapping: output -> column; None: all, under their names.
            binary_outputs: outputs whose strings are bytes; those of others are UTF-8.
            batch_size: rows that the model gets at a time.
            keep: results have all columns of ``schema`` in front of the outputs.
            plain: an output of one element for each row, as of the shape [?, 1], becomes a column
                of plain values. Otherwise it is one of lists.
        """
        if batch_size < 1:
            raise BadInputError(f"batch_size is {batch_size}; it must be at least 1")
        return Inference(
            self,
            schema,
            tuple(_inputs(input_mapping or {})),
            tuple((output_mapping or {}).items()),
            tuple(binary_outputs),
            batch_size,
            keep,
            plain,
        )


def signatures(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """The names of the signatures of a SavedModel, by the tags of its graphs."""
    content = _read(*access_for(path))
    return {
        ",".join(tags): [signature.name for signature in found]
        for tags, found in _native.saved_model_signatures(content)
    }


class Inference:
    """Runs record batches of one schema through a model. Made by :meth:`Model.on`; may be pickled.

    Threads: :meth:`run` may be called from several. The session is this process's, kept for later.
    """

    def __init__(
        self,
        model: Model,
        schema: pa.Schema,
        inputs: tuple[Any, ...],
        outputs: tuple[Any, ...],
        binary: tuple[str, ...],
        batch_size: int,
        keep: bool,
        plain: bool = False,
    ):
        self._arguments = (model, schema, inputs, outputs, binary, batch_size, keep, plain)
        self.model = model
        self._keep = keep
        try:
            self._plan = _native.InferencePlan(
                model._found, list(inputs), list(outputs), list(binary), schema
            )
        except BadInputError as error:
            raise BadInputError(f"{model.path}: {error}") from error
        #: Columns that are needed; record batches may have more.
        self.columns: list[str] = self._plan.columns
        #: The schema of the outputs alone.
        self.output_schema = pa.schema(self._plan.output_type())
        columns = dict(outputs) or {name: name for name in model.outputs}
        self._plain = plain_columns.names(model.outputs, columns) if plain else set()
        self.output_schema = plain_columns.schema(self.output_schema, self._plain)
        kept = list(schema) if keep else []
        twice = sorted({field.name for field in kept} & set(self.output_schema.names))
        if twice:
            raise BadInputError(
                f"column {', '.join(twice)} would appear twice: give the outputs of {model.path} "
                "other names in the output mapping"
            )
        #: The schema of what :meth:`run` yields.
        self.schema = pa.schema([*kept, *self.output_schema])
        self._batch_size = self._plan.fixed_rows or batch_size

    def __reduce__(self) -> tuple[Any, ...]:
        return Inference, self._arguments

    def to_json(self) -> str:
        """What another runner needs to do the same (jvm/.../FrameInference.java), except
        the path."""
        model, _, inputs, outputs, binary, batch_size, keep, _ = self._arguments
        return json.dumps(
            {
                "tags": model.tags,
                "signature": model.signature,
                "opLibraries": model.op_libraries,
                "inputs": inputs,
                "outputs": outputs,
                "binary": binary,
                "batchSize": batch_size,
                "keep": keep,
            }
        )

    def run(self, batches: Iterable[pa.RecordBatch], calls: int = 1) -> Iterator[pa.RecordBatch]:
        """The results, a row for each row, in order. Small batches are put together until the
        model's are full. Up to ``calls`` calls of the model run at a time, each in a thread; for
        models of one thread that is faster than one call of a model with several."""
        engine = _native.InferenceEngine(_session(self.model), self._plan)
        widest = 0.0  # Bytes of the results of a row, as far as there are some.

        def most_rows() -> int:
            # Each call costs, so models of small results get many batches in one.
            rows = int(_RESULT_BYTES / widest) if widest else 0
            return max(rows - rows % self._batch_size, self._batch_size)

        def results(piece: tuple[list[pa.RecordBatch], int]) -> list[pa.RecordBatch]:
            nonlocal widest
            outputs = self._outputs(engine, *piece)
            widest = max(widest, outputs.nbytes / outputs.num_rows)
            return self._kept(piece[0], outputs)

        pieces = self._pieces(batches, most_rows)
        for found in (
            map(results, pieces) if calls == 1 else _map_in_threads(results, pieces, calls)
        ):
            yield from found

    def _pieces(
        self, batches: Iterable[pa.RecordBatch], most_rows: Callable[[], int]
    ) -> Iterator[tuple[list[pa.RecordBatch], int]]:
        """Rows for whole batches of the model, the last ones aside, and the number of the first.
        ``most_rows``: of a piece."""
        waiting: list[pa.RecordBatch] = []
        rows = done = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            waiting.append(batch)
            rows += batch.num_rows
            while rows >= self._batch_size:
                taken = min(rows - rows % self._batch_size, most_rows())
                ready, waiting = _cut(waiting, taken)
                yield ready, done
                done += taken
                rows -= taken
        if waiting:
            yield waiting, done

    def _outputs(
        self, engine: Any, batches: list[pa.RecordBatch], first_row: int
    ) -> pa.RecordBatch:
        outputs = pa.record_batch(
            engine.run(
                [batch.select(self.columns) for batch in batches], self._batch_size, first_row
            )
        )
        return plain_columns.batch(outputs, self.output_schema) if self._plain else outputs

    def _kept(self, batches: list[pa.RecordBatch], outputs: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The outputs, behind the columns that are kept."""
        if not self._keep:
            return [outputs]
        kept = []
        start = 0
        for batch in batches:
            columns = outputs.slice(start, batch.num_rows).columns
            kept.append(
                pa.RecordBatch.from_arrays([*batch.columns, *columns], names=self.schema.names)
            )
            start += batch.num_rows
        return kept


def _map_in_threads(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """As ``map``, with up to ``threads`` calls at a time. No item is taken before there is a thread
    for it, but one."""
    with ThreadPoolExecutor(threads, thread_name_prefix="tfos-inference") as pool:
        running: deque[Future[R]] = deque()
        try:
            for item in items:
                running.append(pool.submit(function, item))
                if len(running) > threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for call in running:
                call.cancel()


def _cut(
    batches: list[pa.RecordBatch], rows: int
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """The first ``rows`` rows, which end in the last batch, and the rest."""
    *front, last = batches
    own = rows - sum(batch.num_rows for batch in front)
    if own == last.num_rows:
        return batches, []
    return [*front, last.slice(0, own)], [last.slice(own)]


def _inputs(mapping: InputMapping) -> Iterator[tuple[str, str, str]]:
    for column, tensor in mapping.items():
        names = [tensor] if isinstance(tensor, str) else list(tensor)
        if len(names) not in (1, 2):
            raise BadInputError(
                f"input_mapping of column {column!r} is {tensor!r}; it must be the name of an "
                "input, or of two: those of a ragged tensor's values and of its row splits"
            )
        yield column, names[0], names[1] if len(names) == 2 else ""


def _read(access: FileAccess, path: str) -> bytes:
    """The graph of a SavedModel."""
    file = os.path.join(path, "saved_model.pb")
    if access.status(file) is None:
        raise BadInputError(_why_none(access, path))
    with access.open(file) as opened:
        return opened.read()


def _stamp(access: FileAccess, path: str, graph: bytes) -> str:
    """What changes when the graph, the variables or the assets do."""
    digest = hashlib.sha256(graph)
    # It has a checksum of each variable.
    index = os.path.join(path, "variables", "variables.index")
    if access.status(index) is not None:
        with access.open(index) as opened:
            digest.update(opened.read())
    # Nothing else tells of them: vocabularies that differ leave the graph as it was.
    assets = os.path.join(path, "assets")
    for file in _files_below(access, assets) if access.status(assets) is not None else ():
        name = file.removeprefix(assets).encode(errors="surrogateescape")
        content = hashlib.sha256()
        with access.open(file) as opened:
            while piece := opened.read(_PIECE_BYTES):
                content.update(piece)
        digest.update(len(name).to_bytes(8, "big") + name + content.digest())
    return digest.hexdigest()


def _files_below(access: FileAccess, directory: str) -> Iterator[str]:
    for found in access.list(directory):
        if found.is_directory:
            yield from _files_below(access, found.path)
        else:
            yield found.path


def _why_none(access: FileAccess, path: str) -> str:
    status = access.status(path)
    is_directory = status is not None and status.is_directory
    below = [
        found.path
        for found in (access.list(path) if is_directory else ())
        if found.is_directory
        and access.status(os.path.join(found.path, "saved_model.pb")) is not None
    ]
    # Names need not be UTF-8.
    shown, *below = (name.encode(errors="replace").decode() for name in (path, *below))
    return _native.why_no_saved_model(shown, status is not None, is_directory, below)


#: A process that runs many models, as in a search for parameters, does not keep them all.
_sessions = Sessions(most=2)


def _session(model: Model) -> Any:
    key = (model.path, model.tags, model.op_libraries, model.threads)
    return _sessions.get(key, model.stamp, lambda: _load(model))


def _load(model: Model) -> Any:
    access, path = access_for(model.path)
    if _stamp(access, path, _read(access, path)) != model.stamp:
        raise BadInputError(
            f"{path} on this host is not the model that was checked: it was written anew "
            "meanwhile, or hosts have different copies of it"
        )
    if scheme_of(path) in hadoop_client.schemes():
        import tfos.tensorflow  # noqa: F401  (gives TensorFlow the file system)
    return _native.SavedModelSession(
        _tensorflow_directory(), path, model.tag_list, list(model.op_libraries), model.threads
    )


def _tensorflow_directory() -> str:
    """Where the libraries of the installed TensorFlow are. Its Python, seconds long, isn't
    imported."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise TfosError(
            "tensorflow is not installed: pip install tensorflow, 2.16 or newer, on every "
            "host that runs models"
        )
    return os.path.dirname(spec.origin)
