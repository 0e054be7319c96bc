"""Values of variables, of whichever Keras or TensorFlow they are."""

from __future__ import annotations

from typing import Any

import numpy as np


def whole_value(variable: Any) -> int:
    """Of a variable that counts. ``int`` takes no variables of Keras 3 before 3.5."""
    return int(np.asarray(variable))
