"""TensorBoard's page, as a browser sees it."""

from __future__ import annotations

import urllib.request

from support.waiting import BOUND_SECONDS


def page_of(url: str, path: str = "/") -> bytes:
    """What is at ``path`` for a browser that was given ``url``, which may hold a key."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(url, timeout=BOUND_SECONDS):
        pass  # The key becomes a cookie.
    with browser.open(url.partition("?")[0].rstrip("/") + path, timeout=BOUND_SECONDS) as answer:
        return answer.read()
