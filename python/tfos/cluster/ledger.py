"""What happened to the rows that ``Cluster.train`` fed: the counts, which must add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Ledger:
    """How many rows were fed, delivered, read and dropped; :meth:`lines` shows it as text.

    An item is what a feed task counts: a row, or a batch of rows that Spark had already pickled.
    :attr:`unit` says which it is. tfos passes such a batch on unopened, and learns how many rows
    it holds when the program reads it. Rows of zeros, which ``remainder="pad"`` adds, are in no
    count.

    Attributes:
        read: items that Spark's tasks read and delivered; those of retried tasks count once.
        batches: whether some items were pickled batches.
        rows: whether some items were rows.
        moved: how many items were sent again, because the node that had them was lost. No more
            than these were read by two programs.
        cut_short: whether a job was cancelled, because no node wanted more rows; then ``read`` may
            be too low.
        nodes: the counts of each node, by names such as ``worker:0``. Items are ``delivered``,
            ``unread`` (the program has not started them) and ``replayed`` (from the cache). Rows
            are ``rows_read`` by the program, ``rows_dropped`` as remainder, and
            ``rows_read_elsewhere`` by the program of a lost node, or before the checkpoint from
            which the cluster goes on. At the end of an epoch, rows are ``rows_passed_on`` to other
            nodes and ``rows_taken_over`` from them. ``left`` rows were not read; it is there where
            items are rows.
        epochs_before: epochs that an earlier cluster has trained, which were not fed again.
        rows_before: rows of the next one that it has trained on, likewise.
        asked_for_more: nodes whose programs asked for an epoch that was not fed.
        stopped_early: nodes on which a callback such as ``EarlyStopping`` has ended ``fit`` before
            its last epoch.
        lost: nodes that were lost; their counts are the last ones that they reported.
        came_again: those of them in whose place another came. Counts are those of both together.

    Owner and lifetime: what ``Cluster.ledger`` returns is a copy. Threads: one at a time.
    """

    read: int = 0
    batches: bool = False
    rows: bool = False
    moved: int = 0
    cut_short: bool = False
    epochs_before: int = 0
    rows_before: int = 0
    nodes: dict[str, dict[str, int]] = field(default_factory=dict)
    asked_for_more: set[str] = field(default_factory=set)
    stopped_early: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    came_again: set[str] = field(default_factory=set)

    def begin_job(self, batches: bool) -> None:
        """For tfos itself: a job begins to feed pickled batches, or rows."""
        self.batches |= batches
        self.rows |= not batches

    def count_job(self, counts: Iterable[tuple[int, int]]) -> None:
        """For tfos itself: adds what the tasks of a job have fed, and how much of it they moved."""
        for items, moved in counts:
            self.read += items
            self.moved += moved

    def update(self, nodes: Iterable[dict[str, Any]]) -> None:
        """For tfos itself: takes the nodes' own counts from their metrics."""
        for node in nodes:
            before = node.get("metrics_before", [])
            lives = [node["metrics"], *before]
            name = f"{node['job_name']}:{node['task_index']}"
            # One without a host has never come.
            if before or (node["state"] == "lost" and node["host"]):
                self.lost.add(name)
            if before:
                self.came_again.add(name)
            if node["metrics"].get("asked_for_more"):
                self.asked_for_more.add(name)
            if node["metrics"].get("stopped_early"):
                self.stopped_early.add(name)
            if not any("items_delivered" in metrics for metrics in lives):
                continue
            count = {
                name: sum(int(metrics.get(metric, 0)) for metrics in lives)
                for name, metric in _METRICS.items()
            }
            answered = sum(int(metrics.get("result_rows", 0)) for metrics in lives)
            count["rows_read"] -= answered  # those of inference
            # Rows of inference that are read and not answered are Spark's to ask again.
            if not self.batches and not answered and count["delivered"]:
                count["left"] = (
                    count["delivered"]
                    + count["replayed"]
                    + count["rows_taken_over"]
                    - count["rows_passed_on"]
                    - count["rows_read"]
                    - count["rows_dropped"]
                    - count["rows_read_elsewhere"]
                )
            self.nodes[name] = count

    @property
    def unit(self) -> str:
        """What an item is: "rows", "pickled batches", or "rows and pickled batches" where some
        jobs have fed rows and others batches."""
        if not self.batches:
            return "rows"
        return "rows and pickled batches" if self.rows else "pickled batches"

    @property
    def delivered(self) -> int:
        """Items delivered to all nodes together."""
        return sum(count["delivered"] for count in self.nodes.values())

    @property
    def ended_early(self) -> list[str]:
        """Nodes whose programs ended by themselves before they had read all that was fed to them.

        Not those of a job that was cut short: there all programs wanted no more. Nor those whose
        training a callback has ended."""
        if self.cut_short:
            return []
        names = self.nodes.keys() - self.lost - self.stopped_early
        return sorted(name for name in names if self._left(name) > 0)

    def _left(self, name: str) -> int:
        """Rows that a node's program has not read; or items, where some are pickled batches."""
        count = self.nodes[name]
        return count.get("left", count["unread"])

    def _some(self, count: int) -> str:
        """The number of items, in words."""
        return f"{count:,} {self.unit}"

    def complaint(self) -> str | None:
        """What doesn't add up; None when everything does."""
        known = not (self.cut_short or self.lost or self.moved)
        if known and self.delivered != self.read:
            return (
                f"the feed tasks delivered {self._some(self.read)} and the nodes count "
                f"{self.delivered:,}"
            )
        for name, count in sorted(self.nodes.items()):
            if known and count.get("left", 0) < 0:
                return f"{name} got {-count['left']:,} rows fewer than its program has read"
        return None

    def lines(self, *, is_last: bool = True) -> list[str]:
        """As text: what was read, and a line for each node. Empty when nothing was fed.
        ``is_last``: nothing more will be read, so what is unread is left."""
        unread = "left unread" if is_last else "not read yet"
        if not self.read and not self.delivered:
            return []
        read = f"at least {self.read:,}" if self.cut_short else f"{self.read:,}"
        if self.cut_short and not self.read:
            read = "not known"  # no job has ended well
        lines = [
            f"ledger | {self.unit} read from Spark: {read}, delivered to nodes: {self.delivered:,}"
        ]
        if self.moved:
            lines[0] += f", moved from lost nodes: {self.moved:,}"
        if self.batches:
            lines[0] += " (a pickled batch holds several rows, as Spark had packed them)"
        if self.epochs_before or self.rows_before:
            lines.append(f"ledger | trained by an earlier cluster: {self._before()}")
        for name, count in sorted(self.nodes.items()):
            words = [f"{self._some(count['delivered'])} delivered"]
            if count["replayed"]:
                words.append(f"{self._some(count['replayed'])} replayed")
            words.append(f"{count['rows_read']:,} rows read by the program")
            if count["rows_read_elsewhere"]:
                words.append(f"{count['rows_read_elsewhere']:,} {self._who_read_others()}")
            if count["rows_passed_on"]:
                words.append(f"{count['rows_passed_on']:,} passed on to other nodes")
            if count["rows_taken_over"]:
                words.append(f"{count['rows_taken_over']:,} taken over from other nodes")
            if count["rows_dropped"]:
                words.append(f"{count['rows_dropped']:,} dropped as remainder")
            if left := self._left(name):
                # Where all items are rows, so is this.
                words.append(f"{self._some(left)} {unread}")
            if name in self.came_again:
                words.append("lost, and another came in its place")
            elif name in self.lost:
                words.append("lost (as of its last word)")
            lines.append(f"ledger | {name}: " + ", ".join(words))
        for name in sorted(self.lost - self.nodes.keys()):
            lines.append(f"ledger | {name}: lost before its first word")
        if self.stopped_early and is_last:
            lines.append(f"ledger | {self._why_stopped()}")
        return lines

    def _before(self) -> str:
        """What an earlier cluster has trained on, which the counts leave out."""
        epochs = f"{self.epochs_before:,} epoch{'' if self.epochs_before == 1 else 's'}"
        if not self.rows_before:
            return epochs
        of_next = f"{self.rows_before:,} rows of the {'next' if self.epochs_before else 'first'}"
        return f"{epochs} and {of_next}" if self.epochs_before else of_next

    def _who_read_others(self) -> str:
        """Whose program has read what a node left out, of what it got."""
        if not self.rows_before:
            return "by that of a lost node"
        return f"by that of {'a lost node or of ' if self.lost else ''}an earlier cluster"

    def _why_stopped(self) -> str:
        of = ", ".join(sorted(self.stopped_early))
        callback = f"on {of}, a callback such as EarlyStopping"
        if self.epochs_before and not any(count["rows_read"] for count in self.nodes.values()):
            return (
                f"{callback} had ended the training in an earlier cluster, so nothing was trained. "
                "With more patience, it would go on"
            )
        return (
            f"{callback} has ended fit before its last epoch, so rows of later epochs are not "
            "trained on"
        )


#: The counts of a node and the metrics that they come as.
_METRICS = {
    "delivered": "items_delivered",
    "unread": "items_unread",
    "replayed": "items_replayed",
    "rows_read": "rows",
    "rows_dropped": "rows_dropped",
    "rows_read_elsewhere": "rows_read_elsewhere",
    "rows_passed_on": "rows_passed_on",
    "rows_taken_over": "rows_taken_over",
}
