"""pyarrow, which tfos does without until files of records or models over rows are asked for.

Modules that need it import ``pa`` from here: if it is missing, the error says what to do.
"""

from __future__ import annotations

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError(
        f"TFRecords, and models over rows, need pyarrow ({error}): pip install pyarrow, for "
        "the Python of the driver and those of the executors",
        name=error.name,
    ) from error

__all__ = ["pa"]
