"""Writes checkpoints into a directory, and dies meanwhile.

dying_writer.py DIRECTORY each       a process for each thing that a writer does, which is killed
                                     before it, or in the middle of it; says after each how it
                                     ended and which checkpoint is the newest
dying_writer.py DIRECTORY parts      likewise, of nodes that write parts, one after the other, in
                                     fewer pieces: each death repeats all that came before it
dying_writer.py DIRECTORY endless    one after the other, and says which are there
"""

import io
import itertools
import os
import signal
import sys

from support.files.checkpoints import checked, state_of, write_in_parts
from tfos.files.local import LocalFiles
from tfos.keras.checkpoint.directory import CheckpointDirectory
from tfos.keras.checkpoint.parts import PartedDirectory


class Deadly(LocalFiles):
    """This host's files, until so many things were done with them."""

    def __init__(self, left, piece):
        super().__init__()
        self.left = left
        self.piece = piece

    def count(self):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def create(self, path):
        self.count()
        return io.BufferedWriter(DeadlyFile(self, path), buffer_size=self.piece)

    def rename(self, source, target):
        self.count()
        super().rename(source, target)
        self.count()

    def delete(self, path):
        self.count()
        super().delete(path)

    def mkdirs(self, directory):
        self.count()
        super().mkdirs(directory)


class DeadlyFile(io.FileIO):
    def __init__(self, files, path):
        super().__init__(path, "w")
        self._files = files

    def write(self, data):
        self._files.count()
        half = super().write(bytes(data)[: max(len(data) // 2, 1)])
        self._files.count()
        return half

    def close(self):
        if not self.closed:
            self._files.count()
        super().close()


def write_next(directory, files, in_parts=False):
    writer = PartedDirectory(directory)
    number = checked(directory).epoch + 1
    if files is not None:
        writer._access = files
    if in_parts:
        write_in_parts(writer, number)
    else:
        writer.write(state_of(number))
    writer.prune(2)
    return number


def die_before_each(directory, in_parts):
    for number in itertools.count():
        child = os.fork()
        if not child:
            files = Deadly(number, 256 if in_parts else 64)
            write_next(directory, files, in_parts)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        print(status, checked(directory).epoch, flush=True)
        if status == 0:
            return


if __name__ == "__main__":
    CheckpointDirectory(sys.argv[1]).write(state_of(0))
    if sys.argv[2] in ("each", "parts"):
        die_before_each(sys.argv[1], in_parts=sys.argv[2] == "parts")
    else:
        while True:
            print(write_next(sys.argv[1], None), flush=True)
