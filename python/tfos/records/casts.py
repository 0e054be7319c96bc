"""Which casts of Arrow keep values, for files whose rows are put together.

They fail for a number that is out of range. But they also make a number of a timestamp, 1 of true,
and round floats. Threads: any.
"""

from __future__ import annotations

from tfos.base.arrow import pa


def keeps_values(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps each value, or fails. Both are types of single values."""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if found == wanted or pa.types.is_null(found):
        return True
    if pa.types.is_floating(found) and pa.types.is_floating(wanted):
        return found.bit_width <= wanted.bit_width
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    if pa.types.is_date(found) and pa.types.is_timestamp(wanted):
        return wanted.tz is None
    if pa.types.is_integer(found):
        return _is_number(wanted)
    if pa.types.is_integer(wanted):
        return _is_number(found)
    return any(one(found) and one(wanted) for one in _ALIKE)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return "string" in str(kind) or "binary" in str(kind)


_ALIKE = (
    _is_bytes,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
)
