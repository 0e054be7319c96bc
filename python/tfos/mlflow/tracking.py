"""What is asked of MLflow, and which run that is."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from tfos.errors import BadInputError

#: What a sentence says where the package can't be imported.
HOW_TO_INSTALL = f"pip install mlflow-skinny for {sys.executable}"
#: What stands before the host in an address.
_USER = re.compile(r"//[^/\s]*@")


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
        """An error in one line, without the secrets, also where HTTP clients have written the URI
        in their own way: with other escapes, the host in small letters, a port."""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        secrets = {*self.secrets, *_secrets_of(self.uri)}
        spellings = {way for secret in secrets if secret for way in _spellings(secret)}
        for spelling in sorted(spellings, key=len, reverse=True):
            text = re.sub(re.escape(spelling), "***", text, flags=re.IGNORECASE)
        return _USER.sub("//***@", text)


def _secrets_of(uri: str) -> Iterator[str]:
    """The password in an address, or the user where there is none, as it may be a token; and what
    is after the ``?``. All of an address that can't be read."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        yield uri
        return
    yield parts.password or parts.username or ""
    yield parts.query


def _spellings(secret: str) -> set[str]:
    """In messages. Whitespace is one blank there."""
    plain = unquote(secret)
    ways = {
        secret,
        plain,
        quote(plain),
        quote(plain, safe=""),
        quote(secret, safe="%!$&'()*+,;=:@"),
    }
    return {" ".join(way.split()) for way in ways} - {""}


def without_password(uri: str) -> str:
    """``https://me:secret@host/a?key=b`` as ``https://host/a``."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "an address that can't be read"
    if not parts.netloc:
        return uri.partition("?")[0]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
