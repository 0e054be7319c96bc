"""``tensorflowonspark`` for nodes that take 20 % of a GPU's memory each, and share it."""

from tensorflowonspark import __path__, __version__  # noqa: F401

GPU_FRACTION = 0.2
