"""Files that nodes read themselves: which node gets which, and TFRecords as ``tf.data``.

Nodes do not talk about it: each sees the same files, and computes the same shares.
Errors: :class:`tfos.errors.BadInputError`; :class:`OSError` naming the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfos.base.arrow import pa
from tfos.base.roles import members_of
from tfos.errors import BadInputError
from tfos.files.access import access_for
from tfos.records import formats, listing

if TYPE_CHECKING:
    import tensorflow as tf


def share(patterns: Sequence[str], nodes: Sequence[dict[str, Any]], node_id: int) -> list[str]:
    """The files that this node is to read, in order of their names; none for a node that does not
    train (ps, evaluator).

    Args:
        patterns: as :func:`tfos.records.listing.list_files` takes them.
        nodes: every node of the cluster, each a NODE of docs/formats/control-protocol.md.
    """
    training = [node["node_id"] for node in members_of(nodes)]
    files = listing.list_files(patterns)
    if not files:
        raise BadInputError(f"{', '.join(patterns)}: there is no file in it")
    if node_id not in training:
        return []
    sizes = [(file.path, file.size) for file in files]
    return listing.share_of(sizes, training.index(node_id), len(training))


def tfrecords(
    files: Sequence[str],
    schema: pa.Schema,
    batch_size: int,
    *,
    record_type: str = "Example",
    compression: str | None = None,
    mode: str = "failfast",
    drop_remainder: bool = False,
) -> tf.data.Dataset:
    """The tf.Examples of files as a dataset, as ``ctx.tfrecords`` describes it. A native thread of
    each pass decodes records a few batches ahead, straight into the memory of tensors."""
    from tfos.records import dataset

    if batch_size < 1:
        raise BadInputError(f"batch_size={batch_size} is not a positive number")
    if mode == "permissive":
        raise BadInputError(
            "mode 'permissive' makes nulls, which tensors do not have; there are "
            "failfast and dropmalformed"
        )
    found = []
    for file in files:
        access, path = access_for(file)
        found.append((access.native_path(path), formats.compression_of(path, compression)))
    return dataset.make(found, schema, batch_size, record_type, mode, drop_remainder)
