"""The version of tfos. CMake, the wheel and ``tfos.__version__`` read it here."""

__version__ = "0.1.0"
