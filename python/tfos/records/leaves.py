"""What the columns of tables hold in the end, in lists and structs perhaps. Threads: any."""

from __future__ import annotations

from collections.abc import Iterator

from tfos.base.arrow import pa


def leaves_of(schema: pa.Schema) -> dict[str, pa.DataType]:
    """What the columns hold in the end, by the names of columns and of fields in them: a.b."""
    return {name: leaf for field in schema for name, leaf in _leaves(field.name, field.type)}


def _leaves(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{name}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{name}.key", kind.key_type)
        yield from _leaves(f"{name}.value", kind.item_type)
    elif hasattr(kind, "value_type"):
        yield from _leaves(name, kind.value_type)
    else:
        yield name, kind


def leaf_type(kind: pa.DataType) -> pa.DataType:
    """What a list, of lists perhaps, holds in the end."""
    while (
        pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind)
    ):
        kind = kind.value_type
    return kind
