"""Checkpoints of which each node writes a part: whole or not there, whichever part is missing."""

from __future__ import annotations

import errno
import os
import pathlib
import threading
import zipfile

import numpy as np
import pytest

import tfos
from support.files.checkpoints import (
    NAMES,
    check_each_kill,
    checked,
    next_plan,
    parts_of,
    state_of,
    write_in_parts,
)
from support.files.remote_files import names_in, read_bytes, write_bytes
from tfos.files.access import access_for
from tfos.keras.checkpoint import parts
from tfos.keras.checkpoint.directory import CheckpointDirectory
from tfos.keras.checkpoint.parts import PartedDirectory, PartError, split
from tfos.keras.checkpoint.writer import Writer


def test_the_largest_part_is_small():
    sizes = [7, 100, 1, 40, 40, 60, 3, 0]
    filled = [0] * 3
    for size, owner in zip(sizes, split(sizes, [True] * len(sizes), 3), strict=True):
        filled[owner] += size
    assert sorted(filled) == [71, 80, 100]


def test_what_only_the_first_node_has_is_in_its_part():
    owners = split([10, 90, 20, 30], [True, False, True, True], 2)
    assert owners == [1, 0, 1, 1], "that is the larger part already"


def test_all_nodes_split_alike():
    sizes = [8] * 10
    assert split(sizes, [True] * 10, 4) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert split(sizes, [True] * 10, 1) == [0] * 10
    assert split(sizes[:2], [True] * 2, 4) == [0, 1], "some parts have nothing"


@pytest.mark.parametrize("kind", ["local", "hdfs", "viewfs", "faulty", "s3a"])
def test_what_is_written_is_read(kind, empty_directory, request):
    if kind == "faulty":
        request.getfixturevalue("faulty")
    directory = f"{empty_directory(kind)}/run"
    files = PartedDirectory(directory)
    for number in range(4):
        write_in_parts(files, number)
        files.prune(2)
        assert checked(directory).epoch == number
    assert names_in(directory) == ["checkpoint-00000003", "checkpoint-00000004"]
    found = tfos.last_checkpoint(directory)
    assert found.path.endswith("/run/checkpoint-00000004")
    assert (found.epoch, found.step) == (3, 30)


def test_numpy_reads_the_parts(tmp_path):
    folder = write_in_parts(PartedDirectory(tmp_path), 7).path
    found = {}
    for file in sorted(pathlib.Path(folder).glob("*.npz")):
        with np.load(file) as archive:
            assert not found.keys() & set(archive.files)
            found.update({name: archive[name] for name in archive.files})
    assert found["00000 dense/kernel"].tolist() == [[7, 7]] * 3
    assert len([name for name in found if name[:1] == "0"]) == len(state_of(7).variables)


def test_whole_ones_and_those_in_parts_go_into_one_directory(tmp_path):
    files = PartedDirectory(tmp_path)
    for number in range(1, 5):
        if number % 2:
            write_in_parts(files, number)
        else:
            files.write(state_of(number))
        assert checked(tmp_path).epoch == number
    files.prune(2)
    assert names_in(tmp_path) == ["checkpoint-00000003", "checkpoint-00000004"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_the_first_node_waits_for_the_others(tmp_path, order):
    plan = next_plan(PartedDirectory(tmp_path), 5)
    begun = [threading.Event() for _ in NAMES]

    def write(rank):
        files, part = PartedDirectory(tmp_path), parts_of(5)[rank]
        before = order.index(rank) - 1
        if before >= 0:
            assert begun[order[before]].wait(60)
        begun[rank].set()
        if rank > 0:
            files.write_part(plan, rank, part.variables)
        else:
            files.write_with_others(plan, part, NAMES, lambda: plan.ranks)

    threads = [threading.Thread(target=write, args=(rank,)) for rank in range(len(NAMES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert checked(tmp_path).epoch == 5


def without_part(files, number, members=range(len(NAMES))):
    """Writes the state of a number without the last node, whose name is in the error. Returns the
    plan."""
    plan = next_plan(files, number)
    first, second, _ = parts_of(number)
    files.write_part(plan, 1, second.variables)
    with pytest.raises(PartError, match=NAMES[2]) as raised:
        files.write_with_others(plan, first, NAMES, lambda: members)
    assert NAMES[1] not in str(raised.value)
    return plan, str(raised.value)


@pytest.mark.parametrize("kind", ["local", "hdfs", "s3a"])
def test_without_a_part_the_one_before_counts(kind, empty_directory, monkeypatch):
    directory = empty_directory(kind)
    files = PartedDirectory(directory)
    before = write_in_parts(files, 1)
    monkeypatch.setattr(parts, "PARTS_TIMEOUT", 0.0)
    plan, why = without_part(files, 2)
    assert "did not come within" in why
    assert checked(directory).path == before.path
    # A full disk needs the room.
    assert not any("part-" in name for name in names_below(directory, "checkpoint-00000002"))
    # It comes too late.
    files.write_part(plan, 2, parts_of(2)[2].variables)
    assert checked(directory).path == before.path
    write_in_parts(files, 3)
    files.prune(1)
    assert checked(directory).epoch == 3
    assert names_in(directory) == ["checkpoint-00000003"]


def names_below(directory, folder):
    access, path = access_for(f"{directory}/{folder}")
    return names_in(path) if access.status(path) is not None else []


def test_nobody_waits_for_a_node_that_was_lost(tmp_path):
    files = PartedDirectory(tmp_path)
    _, why = without_part(files, 1, members={0, 1})
    assert "was lost before it had written its part" in why
    assert names_in(tmp_path) == []


def test_a_node_that_has_left_has_written_before(tmp_path):
    files, plan = PartedDirectory(tmp_path), next_plan(PartedDirectory(tmp_path), 1)
    first, *others = parts_of(1)
    for rank, part in enumerate(others, 1):
        files.write_part(plan, rank, part.variables)
    files.write_with_others(plan, first, NAMES, lambda: {0})
    assert checked(tmp_path).epoch == 1


def test_nodes_may_have_other_names_for_their_variables(tmp_path):
    """As Keras numbers layers anew in each process."""
    files, plan = PartedDirectory(tmp_path), next_plan(PartedDirectory(tmp_path), 1)
    first, *others = parts_of(1)
    for rank, part in enumerate(others, 1):
        renamed = [(one._replace(name=f"again/{one.name}"), value) for one, value in part.variables]
        files.write_part(plan, rank, renamed)
    files.write_with_others(plan, first, NAMES, lambda: range(len(NAMES)))
    assert checked(tmp_path).epoch == 1


def test_a_part_that_is_given_up_is_not_waited_for(tmp_path):
    files, plan = PartedDirectory(tmp_path), next_plan(PartedDirectory(tmp_path), 1)
    first, second, _ = parts_of(1)
    files.write_part(plan, 1, second.variables)
    files.give_up_part(plan, 2)
    with pytest.raises(PartError, match=f"{NAMES[2]} could not write .*a newer one was due"):
        files.write_with_others(plan, first, NAMES, lambda: range(len(NAMES)))


def test_what_is_replaced_before_it_was_written_is_told():
    writer, begun, go_on, done = Writer(), threading.Event(), threading.Event(), []
    writer.write(lambda: begun.set() or go_on.wait(), "the first")
    assert begun.wait(60)
    writer.write(lambda: done.append("second"), "the second", lambda: done.append("dropped"))
    writer.write(lambda: done.append("third"), "the third", lambda: done.append("dropped, too"))
    go_on.set()
    assert writer.wait(60)
    assert done == ["dropped", "third"]
    assert [what for what, _ in writer.take_outcomes()] == ["the first", "the third"]


def test_the_first_node_hears_why_another_could_not_write(tmp_path, monkeypatch):
    files = PartedDirectory(tmp_path)
    before = write_in_parts(files, 1)
    plan, (first, second, third) = next_plan(files, 2), parts_of(2)
    plain = files._write_archive

    def write(folder, name, *rest):
        plain(folder, name, *rest)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_write_archive", write)
    with pytest.raises(OSError, match="No space left"):
        files.write_part(plan, 2, third.variables)
    monkeypatch.undo()
    files.write_part(plan, 1, second.variables)
    with pytest.raises(
        PartError, match=f"{NAMES[2]} could not write its part: OSError: .*No space"
    ):
        files.write_with_others(plan, first, NAMES, lambda: plan.ranks)
    assert names_in(tmp_path) == ["checkpoint-00000001"]
    assert checked(tmp_path).path == before.path


def test_parts_of_two_states_are_no_checkpoint(tmp_path, monkeypatch):
    """As of nodes of which one has made a step more."""
    monkeypatch.setattr(parts, "PARTS_TIMEOUT", 0.0)
    files = PartedDirectory(tmp_path)
    plan, other = next_plan(files, 1), next_plan(files, 2)
    first, second, third = parts_of(1)
    files.write_part(plan, 1, second.variables)
    files.write_part(other, 2, third.variables)
    with pytest.raises(PartError, match=NAMES[2]):
        files.write_with_others(plan, first, NAMES, lambda: plan.ranks)
    assert tfos.last_checkpoint(tmp_path) is None


def test_flipped_bits_are_found(tmp_path):
    files = PartedDirectory(tmp_path)
    before, newest = write_in_parts(files, 1).path, write_in_parts(files, 2).path
    counted = [*pathlib.Path(newest).glob("*.npz"), pathlib.Path(newest, "manifest.json")]
    assert len(counted) == len(NAMES) + 1
    for file in counted:
        good = file.read_bytes()
        for place in range(0, len(good), 3):
            bit = 1 << place % 8
            file.write_bytes(good[:place] + bytes([good[place] ^ bit]) + good[place + 1 :])
            with pytest.warns(RuntimeWarning, match=f"{newest} is damaged"):
                assert tfos.last_checkpoint(tmp_path).path == before
        file.write_bytes(good)
    assert checked(tmp_path).path == newest


@pytest.mark.parametrize("kind", ["local", "hdfs", "s3a"])
def test_a_part_that_was_cut_or_is_gone_is_found(kind, empty_directory):
    directory = empty_directory(kind)
    files = PartedDirectory(directory)
    before, newest = write_in_parts(files, 1).path, write_in_parts(files, 2).path
    access, _ = access_for(directory)
    for name in [name for name in names_in(newest) if name.endswith(".npz")]:
        good = read_bytes(f"{newest}/{name}")
        write_bytes(f"{newest}/{name}", good[:-1])
        with pytest.warns(RuntimeWarning, match=f"{newest} is damaged: {name}"):
            assert checked(directory).path == before
        access.delete(f"{newest}/{name}")
        with pytest.warns(RuntimeWarning, match=f"{newest} is damaged: {name} is not there"):
            assert checked(directory).path == before
        write_bytes(f"{newest}/{name}", good)
    assert checked(directory).path == newest


@pytest.mark.parametrize("operation", ["create", "write", "close", "rename"])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_write_that_fails_leaves_the_one_before(faulty, monkeypatch, operation, number):
    """Of whichever node it is."""
    monkeypatch.setattr(parts, "PARTS_TIMEOUT", 0.0)
    files = PartedDirectory(faulty.uri)
    write_in_parts(files, 1)
    faulty.inject(operation, number)
    with pytest.raises(OSError, match=f"injected failure of {operation}"):
        for _ in range(2):  # Files have few blocks.
            write_in_parts(files, 2)
    faulty_number = checked(faulty.uri).epoch
    assert faulty_number in (1, 2)
    write_in_parts(files, 3)
    files.prune(1)
    assert checked(faulty.uri).epoch == 3
    assert len(names_in(faulty.uri)) == 1


def test_nodes_that_are_killed_before_anything_they_do_leave_a_whole_one(tmp_path):
    assert check_each_kill(tmp_path, "parts") > 100


def test_nodes_see_that_they_have_one_directory(tmp_path):
    first = PartedDirectory(tmp_path / "run")
    assert first.mark() is None
    first.try_to_write()
    mark, number = first.begin()
    assert number == 0
    assert PartedDirectory(tmp_path / "run").mark() == mark
    assert PartedDirectory(tmp_path / "other").mark() is None
    write_in_parts(first, 1)
    again, number = first.begin()
    assert number == 1 and again != mark
    (tmp_path / "run" / ".tfos-parts").write_text("")
    assert first.mark() is None


def test_a_part_has_the_values_of_its_node_alone(tmp_path):
    folder = write_in_parts(PartedDirectory(tmp_path), 3).path
    sizes = []
    for file in sorted(pathlib.Path(folder).glob("*.npz")):
        with zipfile.ZipFile(file) as archive:
            sizes.append(len(archive.namelist()))
    # The first one has single numbers, and what callbacks remember.
    assert sizes[0] > max(sizes[1:]) and min(sizes) > 0
    assert CheckpointDirectory(tmp_path).newest().files == [
        file.name for file in sorted(pathlib.Path(folder).glob("*.npz"))
    ]
