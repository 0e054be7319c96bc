"""A real browser without a window: Debian's Chromium, which Selenium drives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from selenium import webdriver

from support.waiting import BOUND_SECONDS, wait_for

CHROMIUM = "/usr/bin/chromium"
DRIVER = "/usr/bin/chromedriver"


@contextlib.contextmanager
def browser(width: int = 1280, height: int = 1000, *, dark: bool = False) -> Iterator[Any]:
    """A browser that is closed afterwards. It reaches this host alone: pages load nothing from
    elsewhere, and it looks for no updates."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",  # Tests may run as root, and in containers.
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    if width < 600:
        metrics = {"width": width, "height": height, "pixelRatio": 1}
        options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        driver.set_script_timeout(BOUND_SECONDS)
        if dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield driver
    finally:
        driver.quit()


def looks(driver: Any) -> int:
    """How often the page has shown new data."""
    return int(driver.execute_script("return document.body.dataset.looks || 0"))


def wait_for_looks(driver: Any, more: int = 1) -> None:
    """Until the page has shown what is there now."""
    wanted = looks(driver) + more
    wait_for(lambda: looks(driver) >= wanted, lambda: f"the page: {complaints(driver)}")


def complaints(driver: Any) -> list[str]:
    """What the browser's console holds: errors of scripts, and what the policy has refused."""
    return [entry["message"] for entry in driver.get_log("browser")]


def text_of(driver: Any, selector: str) -> str:
    script = "return document.querySelector(arguments[0])?.innerText ?? ''"
    return driver.execute_script(script, selector)
