"""Checkpoints on s3a://, where a rename is a copy and directories are names: whole or not there."""

from __future__ import annotations

import itertools
import uuid

import numpy as np
import pytest

from support.files.checkpoints import check_kill, checked, state_of
from support.files.remote_files import names_in
from tfos.keras.checkpoint.archive import Variable
from tfos.keras.checkpoint.directory import CheckpointDirectory, State


def write_next(directory, epoch):
    files = CheckpointDirectory(directory)
    files.write(state_of(epoch))
    files.prune(1)


def write_same_number(directory, epoch):
    """As the node that writes after the chief is lost, which has looked before the chief wrote."""
    files = CheckpointDirectory(directory)
    plain = files._numbers
    files._numbers = lambda: sorted(plain())[:-1]
    files.write(state_of(epoch))


def write_large(directory, epoch):
    """Writes a checkpoint in several parts of an upload, which `IMPATIENT` makes small."""
    value = np.full(3 << 18, epoch, np.float64)
    variable = Variable("large", value.dtype.name, value.shape)
    CheckpointDirectory(directory).write(State(epoch, 0, "Adam", [(variable, value)], {}))


def ends_of(s3a, write, fail):
    """What ``write(directory, epoch)`` leaves after ``fail(request)`` of the wire, for each of its
    requests: the directory, the epoch, and whether the writer has raised an error. None of them
    fails the last time."""
    directory = f"{s3a.dying_uri}/{uuid.uuid4().hex}"
    CheckpointDirectory(directory).write(state_of(0))
    for request in itertools.count():
        fail(request)
        failed = False
        try:
            write(directory, request + 1)
        except OSError:
            failed = True
        is_over = not s3a.wire.mend()
        yield directory, request + 1, failed
        # Else there is more to do each time.
        CheckpointDirectory(directory).prune(1)
        if is_over:
            assert not failed
            return


@pytest.mark.parametrize(
    "write",
    [
        write_next,
        pytest.param(write_same_number, marks=pytest.mark.long),
        pytest.param(write_large, marks=pytest.mark.long),
    ],
)
def test_a_writer_that_dies_after_any_request_leaves_a_whole_one(s3a, write):
    """The S3 sees of it what it sees of a process that is killed there."""
    epochs = [0]
    for directory, epoch, failed in ends_of(s3a, write, s3a.wire.die_after):
        epochs.append(CheckpointDirectory(directory).newest().checkpoint.epoch)
        assert failed or epochs[-1] == epoch
    assert epochs == sorted(epochs) and epochs[-1] == epoch, "the newest is never lost"
    assert len(epochs) > 5
    write_next(directory, epoch + 1)
    [folder] = names_in(directory)
    assert len(names_in(f"{directory}/{folder}")) == 2


@pytest.mark.long
def test_a_lost_answer_loses_no_checkpoint(s3a):
    before = failures = 0
    for directory, epoch, failed in ends_of(s3a, write_next, s3a.wire.lose_answer_of):
        newest = checked(directory).epoch
        assert newest in ((before, epoch) if failed else (epoch,))
        before = newest
        failures += failed
    assert failures > 5


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_one(s3a, seed):
    directory = f"{s3a.uri}/{uuid.uuid4().hex}"
    check_kill(directory, seed, most=10, spins=1_000_000, **s3a.environment)
