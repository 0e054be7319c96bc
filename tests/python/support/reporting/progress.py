"""Says what is known of a run before it ends: each failure as it comes, and, of a run that is
interrupted, the tests that were running. pytest says the first at the end only, and the second
never with several processes (pytest-xdist), but a machine may be taken away before.
"""

from __future__ import annotations

import time

import pytest


class Progress:
    """pytest's plugin in the process that reports; those that run the tests have none."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._started.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write(f"FAILED ({report.when}) {report.nodeid}\n{report.longreprtext}")

    def pytest_keyboard_interrupt(self) -> None:
        now = time.monotonic()
        for nodeid, start in self._started.items():
            self._write(f"INTERRUPTED after {now - start:.0f} s: {nodeid}")

    def _write(self, text: str) -> None:
        # Looked up late: the plugin of the terminal is made after those of conftest.py.
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        terminal.write_line(f"\n{text}", flush=True)


def register(config: pytest.Config) -> None:
    """Has it in the process that reports, and not in the workers of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config))
