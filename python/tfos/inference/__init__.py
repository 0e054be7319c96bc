"""SavedModels over Arrow record batches, and writing them.

    model = tfos.inference.Model("/models/digits")           # reads the signature, loads nothing
    for batch in model.on(schema).run(batches):               # record batches of the outputs
        ...

What fits which input, and what an output becomes, is in docs/inference.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfos.base import lazy

if TYPE_CHECKING:
    from tfos.inference.model import (
        BATCH_SIZE,
        DEFAULT_SIGNATURE,
        DEFAULT_TAGS,
        Inference,
        InputMapping,
        Model,
        signatures,
    )
    from tfos.inference.saved_model import (
        export,
        export_session,
    )

__all__ = [
    "BATCH_SIZE",
    "DEFAULT_SIGNATURE",
    "DEFAULT_TAGS",
    "Inference",
    "InputMapping",
    "Model",
    "export",
    "export_session",
    "signatures",
]

__getattr__, __dir__ = lazy.attach(
    __name__,
    dict.fromkeys(__all__, "tfos.inference.model")
    | dict.fromkeys(("export", "export_session"), "tfos.inference.saved_model"),
)
