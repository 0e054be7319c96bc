"""How Prometheus finds clusters, which come and go on ports of their own."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import tempfile

from tfos.base.network import host_and_port
from tfos.errors import BadInputError

logger = logging.getLogger(__name__)


class ScrapeTarget:
    """A file that names a running cluster to Prometheus, whose ``file_sd_configs`` reads the
    directory (https://prometheus.io/docs/guides/file-sd/). It holds no key.

    Owner and lifetime: the driver's :class:`tfos.Cluster`, which removes it at its end. The file of
    a driver that was killed stays: Prometheus shows its target as down.
    """

    def __init__(
        self, directory: str, cluster_id: str, address: tuple[str, int], labels: dict[str, str]
    ):
        """Writes the file, and makes the directory for it where there is none. ``labels``: what
        Prometheus adds to all metrics of the cluster. Raises :class:`BadInputError` for a directory
        that can't be written."""
        self._path = pathlib.Path(directory) / f"tfos-{cluster_id}.json"
        target = {
            "targets": [host_and_port(*address)],
            "labels": {**labels, "cluster": cluster_id},
        }
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Prometheus may look at any moment, and reads files that end with .json.
            with tempfile.NamedTemporaryFile(
                "w", dir=self._path.parent, prefix=f".{self._path.name}.", delete=False
            ) as file:
                json.dump([target], file)
                os.fchmod(file.fileno(), 0o644)  # Prometheus is another user.
            os.replace(file.name, self._path)
        except OSError as error:
            raise BadInputError(
                f"spark.tfos.scrape.directory={directory!r} can't be written on the driver's host "
                f"({error}): name another directory, or none"
            ) from error

    def remove(self) -> None:
        """May be called twice. That it can't be removed is not worth the end of a good run."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning(
                "%s on the driver's host can't be removed (%s): remove it, or Prometheus shows the "
                "cluster as down",
                self._path,
                error,
            )
