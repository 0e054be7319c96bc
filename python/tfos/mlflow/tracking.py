"""What is asked of MLflow, and which run that is."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tfos.errors import BadInputError

#: What a sentence says where the package can't be imported.
HOW_TO_INSTALL = f"pip install 'tfos[mlflow]' for {sys.executable}"


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """What ``tfos.run(..., mlflow=...)`` writes into the active run; ``True`` stands for
    ``Tracking()``.

    Attributes:
        log_model: whether the chief logs the model, with its signature, at the end of each ``fit``.
        interval: seconds between two points of the nodes' metrics.
        environment: names of variables of the driver that nodes get, too, such as
            ``["MLFLOW_TRACKING_TOKEN"]``. Others stay in the driver, if they may hold a secret.
    """

    log_model: bool = True
    interval: float = 10.0
    environment: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not (self.interval > 0 and math.isfinite(self.interval)):
            raise BadInputError(f"interval={self.interval!r}: seconds, above 0")
        if isinstance(self.environment, str):
            raise BadInputError(
                f"environment={self.environment!r}: a list of names, as in [{self.environment!r}]"
            )


@dataclass(frozen=True)
class Target:
    """A run, and how to reach it: what the driver tells the nodes. Shows no secret.

    Attributes:
        uri: of MLflow's server or store; it may hold a password.
        run_id: of the run.
        experiment_id: of the experiment that the run is in.
        log_model: as in :class:`Tracking`.
        environment: variables for nodes.
        secrets: those of their values that nobody may read.
    """

    uri: str = field(repr=False)
    run_id: str
    experiment_id: str
    log_model: bool = True
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        """The URI for people."""
        return without_password(self.uri)

    def readable(self, error: BaseException) -> str:
        """An error in one line, without the secrets."""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        for secret in (self.uri if self.place != self.uri else "", *self.secrets):
            if secret:
                text = text.replace(secret, "***")
        return text


def without_password(uri: str) -> str:
    """``https://me:secret@host/a?key=b`` as ``https://host/a``."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "an address that can't be read"
    if not parts.netloc:
        return uri.partition("?")[0]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
