"""The feed as NumPy batches: what is behind ``ctx.batches``. TensorFlow is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tfos.errors import BadInputError
from tfos.feed import columns, keras_batches, keras_epochs
from tfos.feed.columns import Column


class Ragged(NamedTuple):
    """A column whose values vary in length, in a batch."""

    #: Those of all rows, one after another.
    values: np.ndarray[Any, Any]
    #: Row ``i`` has ``values[row_splits[i] : row_splits[i + 1]]``; int64.
    row_splits: np.ndarray[Any, Any]


class Batches:
    """An iterable of NumPy batches that ``ctx.batches`` describes.

    Owner and lifetime: the program; at the end of the feed it is empty. Arrays belong to the
    program: it may write and keep them. They start at a multiple of 64 bytes. Threads: any; each
    batch goes to one of them. Errors: :class:`tfos.errors.TfosError`; BadInputError for rows that
    do not make the columns of the first ones.
    """

    def __init__(self, source: Any, request: columns.Request, like: Any = None):
        self._selection = columns.select(source, request, _column_of_spec, like)
        self._arrays = source.arrays(*self._selection.native)
        keras_epochs.prepare()
        keras_batches.prepare(Batches)

    def __iter__(self) -> Iterator[Any]:
        """One pass, which is one epoch, or the rest of one that was left early."""
        self._arrays.begin()
        while (components := self._arrays.next()) is not None:
            left = iter(components)
            values = [
                Ragged(next(left), next(left)) if column.is_ragged else next(left)
                for column in self._selection.columns
            ]
            yield columns.pack(self._selection.structure, values)


def _column_of_spec(name: str, spec: Any, ragged: bool) -> Column:
    try:
        dtype = np.dtype(spec)
    except TypeError as error:
        raise BadInputError(
            f"spec of column {name!r} is {spec!r}; it must be what numpy.dtype takes, such as "
            f"'float32', ('float32', (784,)) or str: {error}"
        ) from error
    base, shape = dtype.base, list(dtype.shape)
    encoding = columns.STRINGS if base.kind in "SUTO" else columns.DENSE
    column = Column(name, encoding, "" if encoding == columns.STRINGS else base.name, shape)
    return column.as_ragged() if ragged and not shape else column
