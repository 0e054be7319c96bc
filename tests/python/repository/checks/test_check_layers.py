"""The layer check finds what it is for, and this repository passes it."""

import graphlib

import pytest

import check_layers
import layers_java
import layers_python
from support.places import ROOT


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


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/base/a.cc", "feed/wire/x.h"),
        ("src/control/link/a.h", "feed/wire/x.h"),
        ("src/feed/wire/a.cc", "control/link/x.h"),
        ("src/feed/wire/a.cc", "testing/fake.h"),
        ("include/tfos/a.h", "base/x.h"),
    ],
)
def test_an_include_upwards_or_sideways_is_found(tree, path, include):
    (message,) = tree({path: f'#include "{include}"\n'})
    assert path in message
    assert include in message


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/feed/wire/a.cc", "base/x.h"),
        ("src/cli/a.cc", "control/link/x.h"),
        ("src/python/bind/a.cc", "feed/node/x.h"),
        ("src/feed/wire/a.cc", "tfos/status.h"),
        ("src/feed/wire/a_test.cc", "testing/fake.h"),
    ],
)
def test_an_include_downwards_is_fine(tree, path, include):
    assert tree({path: f'#include "{include}"\n', "src/feed/wire/CMakeLists.txt": "a_test"}) == []


def test_a_test_that_is_in_no_target_is_found(tree):
    found = tree(
        {
            "src/base/a_test.cc": "",
            "src/base/b_test.cc": "",
            "src/base/CMakeLists.txt": "tfos_test(a_test)",
        }
    )
    assert found == ["src/base/b_test.cc: not in src/base/CMakeLists.txt, so it never runs"]


def test_a_fixture_may_use_what_tests_may(tree):
    assert tree({"src/feed/wire/a_fixture.h": '#include "testing/fake.h"\n'}) == []


@pytest.mark.parametrize(
    "code",
    [
        "thread_ = std::thread([this] { Run(); });",
        "std::thread other{Run};",
        "std::thread other(Run);",
        "std::jthread other(Run);",
        "auto done = std::async(Run);",
    ],
)
def test_a_thread_that_takes_signals_is_found(tree, code):
    tests = ["src/base/a_fixture.h", "src/base/test_a.cc", "src/testing/a.cc"]
    allowed = [*tests, "src/base/thread/thread.cc"]
    found = tree(dict.fromkeys(["src/base/a.cc", *allowed], code))
    assert len(found) == 1
    assert (
        found[0].startswith("src/base/a.cc:1: signals of the program") and "StartThread" in found[0]
    )


@pytest.mark.parametrize(
    "code", ["Result<std::thread> thread = StartThread(", "std::thread thread_;", "std::thread::id"]
)
def test_a_thread_by_start_thread_is_fine(tree, code):
    assert tree({"src/base/a.cc": code}) == []


def test_a_file_that_is_too_long_is_found(tree):
    most = check_layers.MOST_LINES
    files = {"tools/a.py": "pass\n" * (most + 1), "src/base/a.cc": "//\n" * most}
    (message,) = tree(files)
    assert f"tools/a.py: {most + 1} lines" in message


def test_a_folder_without_a_layer_is_found(tree):
    assert len(tree({"src/new/a.cc": ""})) == 1


@pytest.mark.parametrize(
    "table", [check_layers.ALLOWED, layers_python.ALLOWED, layers_java.ALLOWED]
)
def test_the_table_itself_has_no_circle(table):
    graphlib.TopologicalSorter(table).prepare()


def test_a_circle_of_folders_is_found(tree):
    found = tree(
        {
            "src/feed/wire/a.h": '#include "feed/wire/in/b.h"\n',
            "src/feed/wire/in/b.cc": '#include "feed/wire/c.h"\n',
        }
    )
    assert found == ["folders include each other: feed/wire -> feed/wire/in -> feed/wire"]


def test_a_circle_of_files_of_a_folder_is_found(tree):
    found = tree(
        {
            "src/base/a.h": '#include "base/b.h"\n',
            "src/base/b.cc": '#include "base/c.h"\n',
            "src/base/c_impl.h": '#include "base/a.h"\n',
        }
    )
    assert found == ["files include each other: base/a -> base/b -> base/c -> base/a"]


def test_a_file_its_header_and_a_test_that_uses_both_are_no_circle(tree):
    assert not tree(
        {
            "src/base/a.h": "",
            "src/base/a.cc": '#include "base/a.h"\n#include "base/b.h"\n',
            "src/base/a_test.cc": '#include "base/a.h"\n',
            "src/base/b.h": "",
            "src/base/b_test.cc": '#include "base/a.h"\n#include "base/b.h"\n',
            "src/base/CMakeLists.txt": "a_test b_test",
        }
    )


@pytest.mark.parametrize(
    "back",
    ["from tfos.base import a", "from tfos.base.a import f", "def f():\n    import tfos.base.a"],
)
def test_modules_that_import_each_other_are_found(tree, back):
    found = tree({"python/tfos/base/a.py": "import tfos.base.b", "python/tfos/base/b.py": back})
    assert found == ["modules import each other: tfos.base.a -> tfos.base.b -> tfos.base.a"]


def test_a_package_and_its_module_that_import_each_other_are_found(tree):
    found = tree(
        {
            "python/tfos/base/__init__.py": "import tfos.base.b",
            "python/tfos/base/b.py": "import tfos.base",
        }
    )
    assert found == ["modules import each other: tfos.base -> tfos.base.b -> tfos.base"]


def test_an_import_for_types_alone_closes_no_circle(tree):
    back = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tfos.base.a import T"
    assert not tree({"python/tfos/base/a.py": "import tfos.base.b", "python/tfos/base/b.py": back})


@pytest.mark.parametrize(
    ("path", "code", "imported"),
    [
        ("base/a.py", "from tfos.feed.tasks import TrainFeeder", "tfos.feed.tasks"),
        ("base/a.py", "from tfos.feed import tasks", "tfos.feed.tasks"),
        ("base/a.py", "from tfos import feed", "tfos.feed"),
        ("base/a.py", "import tfos.feed.tasks", "tfos.feed.tasks"),
        ("base/a.py", "import tfos", "tfos"),
        ("base/a.py", "def f():\n    from tfos.feed.tasks import TrainFeeder", "tfos.feed.tasks"),
        ("feed/a.py", "from tfos.records import files", "tfos.records.files"),
        ("records/a.py", "from tfos.records.spark import types", "tfos.records.spark.types"),
        ("errors.py", "from tfos.base.roles import plan_roles", "tfos.base.roles"),
        ("cluster/a.py", "import tensorflowonspark.TFCluster", "tensorflowonspark.TFCluster"),
        ("cluster/a.py", "from . import feed", "tfos (with dots"),
    ],
)
def test_an_import_upwards_or_sideways_is_found(tree, path, code, imported):
    (message,) = tree(
        {
            f"python/tfos/{path}": code,
            "python/tfos/feed/tasks.py": "",
            "python/tfos/records/spark/types.py": "",
        }
    )
    assert message.startswith(f"python/tfos/{path}:{code.count(chr(10)) + 1}: ")
    assert f"must not import {imported}" in message


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("__init__.py", "from tfos.cluster.start import run"),
        ("base/a.py", "from tfos import _native, errors"),
        ("base/a.py", "from tfos.errors import TfosError"),
        ("base/a.py", "from tfos.base import network\nimport os.path"),
        ("cluster/a.py", "from tfos.feed.tasks import TrainFeeder"),
        ("records/spark/a.py", "from tfos.records.files import read"),
        ("ml/a.py", "import tfos"),
    ],
)
def test_an_import_downwards_is_fine(tree, path, code):
    assert tree({f"python/tfos/{path}": code, "python/tfos/feed/tasks.py": ""}) == []


def test_a_python_package_without_a_layer_is_found(tree):
    assert tree({"python/tfos/new/a.py": ""}) == [
        "python/tfos/new/a.py: tfos.new has no layer in tools/checks/layers_python.py"
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import tfos.ml.TensorFlowModel;",
        "import tfos.ml.*;",
        "import static com.yahoo.tensorflowonspark.Inference.main;",
        "class A { Object model = new tfos.ml.TensorFlowModel(); }",
    ],
)
def test_a_java_package_that_uses_one_above_is_found(tree, code):
    path = "jvm/src/main/java/tfos/internal/base/A.java"
    (message,) = tree({path: f"package tfos.internal.base;\n/* One\n * two */\n{code}\n"})
    assert message.startswith(f"{path}:4: tfos.internal.base must not use ")


def test_java_comments_and_strings_name_what_they_like(tree):
    code = """package tfos.internal.base;
    /** For {@link tfos.ml.TensorFlowModel}. */
    class A { String name = "tfos.ml.TensorFlowModel"; }  // As tfos.ml.Model has.
    """
    assert tree({"jvm/src/main/java/tfos/internal/base/A.java": code}) == []
    assert tree({"jvm/src/main/java/tfos/ml/B.java": "import tfos.internal.base.A;"}) == []


def test_a_java_package_without_a_layer_is_found(tree):
    assert tree({"jvm/src/main/java/tfos/other/A.java": ""}) == [
        "jvm/src/main/java/tfos/other/A.java: tfos.other has no layer in tools/checks/layers_java.py"
    ]
