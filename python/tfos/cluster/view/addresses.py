"""Where a cluster is looked at and operated from outside, and the keys for that."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfos.base import keys
from tfos.base.network import address_to_reach, host_and_port
from tfos.base.page import PageLink
from tfos.cluster.coordinator import Coordinator
from tfos.cluster.launch import TENSORBOARD_PATH
from tfos.settings import Settings


@dataclass(frozen=True)
class Addresses:
    """The addresses of one cluster's coordinator, for people and their tools, each with a key. That
    of the metrics opens nothing else. That of the page and the status opens all that people read,
    so also what nodes print, their stacks and TensorBoard. With the one to operate, its holder can
    also end the cluster.

    Owner and lifetime: a value; the addresses answer as long as the coordinator. Threads: any.

    Attributes:
        address, port: of the coordinator, as all others reach it.
        from_driver: its address as the driver reaches it.
        token: of the cluster. It is in none of the addresses, but their keys are made of it.
        scrape_token: what opens the metrics instead of such a key, or "".
    """

    address: str
    port: int
    from_driver: str
    token: str = field(repr=False)
    scrape_token: str = field(default="", repr=False)

    @classmethod
    def of(cls, coordinator: Coordinator, token: str, settings: Settings) -> Addresses:
        """The addresses of a coordinator that has started."""
        from_driver = coordinator.address
        if coordinator.executor_id is None:
            # Beside this process, not by the address that others use: a load balancer, say, may not
            # let it come back.
            from_driver = address_to_reach(settings.coordinator_bind_address)
        return cls(coordinator.address, coordinator.port, from_driver, token, settings.scrape_token)

    @property
    def page(self) -> PageLink:
        """The cluster's page."""
        return PageLink.of(self.address, self.port, self._key("read"))

    @property
    def page_from_driver(self) -> PageLink:
        """The same, for the driver itself."""
        return PageLink.of(self.from_driver, self.port, self._key("read"))

    def page_at(self, base_url: str) -> PageLink:
        """The same, where somebody else passes it on."""
        return PageLink(base_url, self._key("read"))

    @property
    def tensorboard(self) -> str:
        """TensorBoard, as the coordinator shows it."""
        return f"{self._http}{TENSORBOARD_PATH}/?key={self._key('read')}"

    @property
    def metrics(self) -> str:
        """The metrics for Prometheus, for ``metrics_header``."""
        return f"{self._http}/metrics"

    @property
    def status(self) -> str:
        """The state of all nodes as JSON, for ``status_header``."""
        return f"{self._http}/v1/status"

    @property
    def operate(self) -> str:
        """What ``tfos status --link`` and its like ask for."""
        where = host_and_port(self.address, self.port)
        return f"tfos://{where}/#key={self._key('operate')}"

    @property
    def metrics_header(self) -> dict[str, str]:
        return _bearer(self.scrape_token or self._key("scrape"))

    @property
    def status_header(self) -> dict[str, str]:
        return _bearer(self._key("read"))

    @property
    def _http(self) -> str:
        return f"http://{host_and_port(self.address, self.port)}"

    def _key(self, purpose: str) -> str:
        return keys.key_for(self.token, purpose)


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
