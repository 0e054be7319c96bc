"""Parameter servers: what ``ctx.parameter_server`` returns, and the optimizers that they know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfos.base import lazy

if TYPE_CHECKING:
    from tfos.parameter_server.client import ParameterServer
    from tfos.parameter_server.rules import Adam, Sgd

__all__ = ["Adam", "ParameterServer", "Sgd"]

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "Adam": "tfos.parameter_server.rules",
        "ParameterServer": "tfos.parameter_server.client",
        "Sgd": "tfos.parameter_server.rules",
    },
)
