"""The layer check finds what it is for, and this repository passes it."""

import check_layers
import pytest
from conftest import ROOT


@pytest.fixture
def tree(tmp_path):
    """Writes a source tree: {path: text}."""
    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(check_layers.violations(tmp_path))

    return write


def test_this_repository_is_in_order():
    assert list(check_layers.violations(ROOT)) == []


@pytest.mark.parametrize(("path", "include"), [
    ("src/base/a.cc", "feed/wire/x.h"),
    ("src/control/link/a.h", "feed/wire/x.h"),
    ("src/feed/wire/a.cc", "control/link/x.h"),
    ("src/feed/wire/a.cc", "testing/fake.h"),
    ("include/tfos/a.h", "base/x.h"),
])
def test_an_include_upwards_or_sideways_is_found(tree, path, include):
    (message,) = tree({path: f'#include "{include}"\n'})
    assert path in message
    assert include in message


@pytest.mark.parametrize(("path", "include"), [
    ("src/feed/a.cc", "base/x.h"),
    ("src/cli/a.cc", "control/link/x.h"),
    ("src/python/bind/a.cc", "feed/node/x.h"),
    ("src/feed/wire/a.cc", "tfos/status.h"),
    ("src/feed/wire/a_test.cc", "testing/fake.h"),
])
def test_an_include_downwards_is_fine(tree, path, include):
    assert tree({path: f'#include "{include}"\n', "src/feed/wire/CMakeLists.txt": "a_test"}) == []


def test_a_test_that_is_in_no_target_is_found(tree):
    found = tree({"src/base/a_test.cc": "", "src/base/b_test.cc": "",
                  "src/base/CMakeLists.txt": "tfos_test(a_test)"})
    assert found == ["src/base/b_test.cc: not in src/base/CMakeLists.txt, so it never runs"]


def test_a_folder_without_a_layer_is_found(tree):
    assert len(tree({"src/new/a.cc": ""})) == 1
