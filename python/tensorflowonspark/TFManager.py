"""The name under which old programs know the type of ``ctx.mgr``: an opaque handle of the feed."""

from tfos.feed.datafeed import FeedSource as TFManager

__all__ = ["TFManager"]
