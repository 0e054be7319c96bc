"""The coordinator's page for people: its link, and the report that it makes of a run."""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from tfos.base.network import host_and_port
from tfos.errors import BadInputError, TfosError

#: Below the page's address.
REPORT_PATH = "v1/report"
OUTPUT_PATH = "v1/output"


@dataclass(frozen=True)
class PageLink:
    """Where a browser finds the page, and with which key.

    Owner and lifetime: a value. Threads: any.

    Attributes:
        base_url: the page's address; it ends with a slash.
        key: the key to read, 64 hexadecimal digits. It opens nothing but pages.
    """

    base_url: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, address: str, port: int, key: str) -> PageLink:
        """The page of the coordinator at this address."""
        return cls(f"http://{host_and_port(address, port)}/", key)

    def __str__(self) -> str:
        # Browsers keep what follows the `#` to themselves, so no server's log has the key.
        return f"{self.base_url}#key={self.key}"

    def fetch_report(self, timeout: float) -> bytes:
        """The page as one HTML file, with all that it shows at this moment. ``timeout``: seconds
        without any progress.

        Raises :class:`BadInputError` for a wrong key, and :class:`TfosError` where the coordinator
        does not answer."""
        try:
            return self._fetch(REPORT_PATH, timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise TfosError(
                    f"{self.base_url}{REPORT_PATH} answered {error.code} {error.reason}"
                ) from None

    def fetch_output(self, node_id: int, after: int, timeout: float) -> dict[str, Any] | None:
        """What a node has written after a position, as the ``answer`` of
        docs/formats/control-protocol.md; None where that is not known now.

        Raises as :meth:`fetch_report`."""
        try:
            body = self._fetch(f"{OUTPUT_PATH}?node={node_id}&after={after}", timeout)
        except urllib.error.HTTPError as error:
            error.close()
            return None
        answer: dict[str, Any] = json.loads(body)
        return answer

    def _fetch(self, path: str, timeout: float) -> bytes:
        """Raises :class:`urllib.error.HTTPError` for answers that are refusals of something else
        than the key."""
        request = urllib.request.Request(
            self.base_url + path, headers={"Authorization": f"Bearer {self.key}"}
        )
        # Not through a proxy of the environment, which would learn the key.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=timeout) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            error.close()
            raise BadInputError(
                f"the key does not open the cluster at {self.base_url}: each cluster has "
                "its own. Take the link that the driver of this cluster has printed"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise TfosError(
                f"the coordinator at {self.base_url} does not answer ({reason}). Either the "
                "cluster has ended, or this host can't reach it"
            ) from error


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file so that nobody finds a part of it. Only this user may read a new one."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".report-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        # The error names the temporary file, of which the caller knows nothing.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
