"""What the repository holds: sources and small data, nothing that was downloaded or built."""

import subprocess

from support.places import ROOT

#: Bytes; seeds and pictures are the largest files.
MOST_BYTES = 500_000


def test_no_file_is_large():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    large = {
        path.name: path.stat().st_size
        for path in files
        if path.is_file() and path.stat().st_size > MOST_BYTES
    }
    assert len(files) > 1000
    assert not large, "tracked by mistake? Every clone carries these"
