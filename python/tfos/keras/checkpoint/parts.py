"""Checkpoints of which each node writes a part: ``ctx.checkpoint(..., sharded=True)``.

All nodes know which part is whose. Each writes its own, and beside it a note that says what is in
it. The first of them waits for the notes of the others, and writes the manifest, which has the sums
of all parts: before that nothing counts. Notes are files, as all nodes must reach the directory
anyway: so nobody waits for a message, and one that is lost can't keep the others.

docs/formats/checkpoint.md has the format. Needs neither Keras nor TensorFlow.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tfos.keras import callback_state
from tfos.keras.checkpoint.archive import DamageError, Values, decoded, encoded
from tfos.keras.checkpoint.directory import (
    FORMAT_OF_PARTS,
    Checkpoint,
    CheckpointDirectory,
    FileSum,
    State,
)

#: How long the first node waits for the parts of the others once it has written its own, in
#: seconds. Parts are about as large, so all are written at about the same time. It is half of what
#: the end of training waits for: so the log says whose part is missing.
PARTS_TIMEOUT = 300.0
#: Between two looks for notes, in seconds: at first, and at most.
_FIRST_LOOK, _LATER_LOOKS = 0.05, 2.0
#: The file by which nodes see that they have the same directory.
_MARK = ".tfos-parts"


class Plan(NamedTuple):
    """Which nodes write a checkpoint: the same on all of them.

    Attributes:
        number: in the name of its folder.
        ranks: of the nodes. The first one writes the manifest.
        unique: in the names of the files. Nodes that want to write something else have another.
    """

    number: int
    ranks: tuple[int, ...]
    unique: str

    @classmethod
    def of(cls, number: int, ranks: Sequence[int], *what: Any) -> Plan:
        """``what``: values for JSON, of which a checkpoint is."""
        text = json.dumps([number, list(ranks), *what])
        return cls(number, tuple(ranks), hashlib.sha256(text.encode()).hexdigest()[:12])


class PartError(Exception):
    """A part of another node is not there."""


def split(sizes: Sequence[int], are_alike: Sequence[bool], parts: int) -> list[int]:
    """Which part has which variable, so that the largest part is small: they are dealt by their
    size, the largest first, each to the part that has least.

    Args:
        sizes: of the variables, in bytes.
        are_alike: which of them have the same values on all nodes. The first part has the others.
        parts: how many there are.
    """
    owners = [0] * len(sizes)
    filled = [0] * parts
    filled[0] = sum(size for size, alike in zip(sizes, are_alike, strict=True) if not alike)
    alike = [place for place, is_alike in enumerate(are_alike) if is_alike]
    for place in sorted(alike, key=lambda place: (-sizes[place], place)):
        owners[place] = filled.index(min(filled))
        filled[owners[place]] += sizes[place]
    return owners


class PartedDirectory(CheckpointDirectory):
    """A directory in which nodes write checkpoints together. As its base otherwise."""

    def begin(self) -> tuple[int, int]:
        """For one of the nodes, before the others look: marks the directory. Returns the mark, and
        the largest number of a checkpoint there, 0 if there is none."""
        mark = secrets.randbits(62)
        self._write_file(f"{self._path}/{_MARK}", lambda to: to.write(f"{mark}\n".encode()))
        return mark, self.last_number()

    def last_number(self) -> int:
        """The largest number of a checkpoint there, written to its end or not; 0 if there is
        none."""
        return max(self._numbers(), default=0)

    def mark(self) -> int | None:
        """What :meth:`begin` has left; None if nobody has begun here."""
        try:
            with self._access.open(f"{self._path}/{_MARK}") as file:
                return int(file.read())
        except (FileNotFoundError, ValueError):
            return None

    def write_part(self, plan: Plan, rank: int, variables: Values) -> None:
        """Writes the part of a node that is not the first. ``variables``: those of the model, with
        values where they are in this part. The first one hears of a failure, if it can be told."""
        folder = self._folder(plan.number)
        self._access.mkdirs(folder)
        try:
            part = self._write_part(folder, plan, rank, variables, None)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._access.delete(f"{folder}/{_part(plan, rank)}")
                why = f"{type(error).__name__}: {error}"
                self._write_note(folder, plan, rank, {"failed": why})
            raise
        self._write_note(folder, plan, rank, {"part": part})

    def give_up_part(self, plan: Plan, rank: int) -> None:
        """In place of :meth:`write_part`, if this node has a newer one to write by now: the first
        node need not wait for it."""
        folder = self._folder(plan.number)
        self._access.mkdirs(folder)
        self._write_note(folder, plan, rank, {"failed": "a newer one was due before it began"})

    def write_with_others(
        self,
        plan: Plan,
        state: State,
        names: Sequence[str],
        members: Callable[[], Collection[int]],
    ) -> Checkpoint:
        """For the first node: writes its part, and the manifest once all others are there. Raises
        :class:`PartError` if one does not come. As ``write`` otherwise.

        Args:
            plan: what all nodes do.
            state: with values where they are in this part.
            names: of the nodes by rank, for messages.
            members: the ranks of those that train now. A node that has left them writes no more.
        """
        folder = self._folder(plan.number)

        def write_parts() -> dict[str, Any]:
            first, *others = plan.ranks
            own = self._write_part(folder, plan, first, state.variables, state.callbacks)
            theirs = self._await_parts(
                folder, plan, {rank: names[rank] for rank in others}, members
            )
            return {"format": FORMAT_OF_PARTS, "parts": [own, *theirs]}

        def written() -> list[str]:
            """Also what others have written by now. Later parts go with the folder, when there is a
            newer checkpoint."""
            listed = (status.path for status in self._access.list(folder))
            return [path for path in listed if plan.unique in posixpath.basename(path)]

        return self._commit(folder, plan.unique, state, write_parts, written)

    def _await_parts(
        self,
        folder: str,
        plan: Plan,
        names: Mapping[int, str],
        members: Callable[[], Collection[int]],
    ) -> list[FileSum]:
        """The parts of others, by rank. ``names``: theirs."""
        deadline = time.monotonic() + PARTS_TIMEOUT
        pause = _FIRST_LOOK
        found: dict[int, FileSum] = {}
        while True:
            there = members()  # First: one that leaves after this look has written before.
            for rank in names.keys() - found.keys():
                note = self._read_note(folder, plan, rank)
                if note is None:
                    continue
                if "failed" in note:
                    raise PartError(f"{names[rank]} could not write its part: {note['failed']}")
                found[rank] = FileSum(*note["part"])
            missing = sorted(names.keys() - found.keys())
            if not missing:
                return [found[rank] for rank in names]
            for rank in missing:
                if rank not in there:
                    raise PartError(f"{names[rank]} was lost before it had written its part")
            if time.monotonic() >= deadline:
                late = ", ".join(names[rank] for rank in missing)
                raise PartError(f"the parts of {late} did not come within {PARTS_TIMEOUT:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, _LATER_LOOKS)

    def _write_part(
        self,
        folder: str,
        plan: Plan,
        rank: int,
        variables: Values,
        callbacks: callback_state.State | None,
    ) -> FileSum:
        return self._write_archive(folder, _part(plan, rank), variables, callbacks)

    def _write_note(self, folder: str, plan: Plan, rank: int, note: dict[str, Any]) -> None:
        """Has it appear whole."""
        path, text = f"{folder}/{_note(plan, rank)}", encoded(note)
        if self._access.creates_whole(folder):
            self._write_file(path, lambda to: to.write(text))
        else:
            self._write_file(f"{path}-new", lambda to: to.write(text))
            self._access.rename(f"{path}-new", path)

    def _read_note(self, folder: str, plan: Plan, rank: int) -> dict[str, Any] | None:
        """None if there is none."""
        name = _note(plan, rank)
        if self._access.status(f"{folder}/{name}") is None:
            return None
        with self._access.open(f"{folder}/{name}") as file:
            try:
                return decoded(file.read(), name)
            except DamageError as error:
                raise PartError(str(error)) from error


def _part(plan: Plan, rank: int) -> str:
    return f"part-{plan.unique}-{rank:05d}.npz"


def _note(plan: Plan, rank: int) -> str:
    return f"part-{plan.unique}-{rank:05d}.json"
