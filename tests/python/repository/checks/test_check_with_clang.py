"""Which C++ sources are checked with Clang when not all are."""

import subprocess
from pathlib import Path

import check_with_clang


def git(folder, *arguments):
    who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, check=True)


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{(folder / name).exists()}\n")


def commit(folder, *names):
    write(folder, *names)
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "A change")


def repository(folder):
    folder.mkdir()
    git(folder, "init")
    commit(folder, "src/old.cc", "src/older.cc")
    commit(folder, "src/new.h", "page.md")
    commit(folder, "src/old.cc")
    return folder


def test_what_was_changed_last_comes_first(tmp_path):
    here = repository(tmp_path / "here")
    write(here, "src/untracked.cc", "src/older.cc", "src/page.md")
    (here / "src/staged.cc").write_text("")
    git(here, "add", "src/staged.cc")
    names = list(dict.fromkeys(check_with_clang.changed(here)))
    assert set(names[:3]) == {f"src/{name}.cc" for name in ("untracked", "older", "staged")}
    assert names[3:] == ["src/old.cc", "src/new.h"]


def test_a_clone_without_history_has_all_sources(tmp_path):
    here = repository(tmp_path / "here")
    git(tmp_path, "clone", "--depth", "1", f"file://{here}", "clone")
    names = list(check_with_clang.changed(tmp_path / "clone"))
    assert sorted(names) == ["src/new.h", "src/old.cc", "src/older.cc"]


def test_a_header_stands_for_its_source_and_test():
    entries = [
        {"file": f"/src/{name}.cc"} for name in ("a", "b", "b_test", "c", "c_test", "d", "header")
    ]
    names = [Path(f"/src/{name}") for name in ("c_test.cc", "b.h", "gone.cc", "a.cc", "d.cc")]
    chosen = check_with_clang.newest(entries, names, 4)
    assert [Path(entry["file"]).stem for entry in chosen] == ["c_test", "b", "b_test", "a"]
