"""Functions of a program that nodes get keep the names of their files, whatever cloudpickle does."""

from __future__ import annotations

import traceback
import types

import cloudpickle
import pytest

from tfos.base.programs import program_pickle, program_result
from tfos.cluster import start


@pytest.fixture(params=["the installed cloudpickle", "cloudpickle 3.1.3"])
def pickles(request, monkeypatch):
    """From 3.1.3 on, cloudpickle pickles no names of files."""
    if request.param == "cloudpickle 3.1.3":
        table = cloudpickle.Pickler.dispatch_table
        reduced = table[types.CodeType]
        monkeypatch.setitem(
            table, types.CodeType, lambda code: reduced(code.replace(co_filename="<dynamic-code>"))
        )


def fails_within():
    """A function of code that no module has, as the program that ``python`` runs."""

    def outer():
        def inner():
            raise ValueError("bad rows")

        return [inner() for _ in range(1)]

    return outer


def files_of(code):
    return {code.co_filename}.union(
        *(files_of(one) for one in code.co_consts if isinstance(one, types.CodeType))
    )


def frames_of(function):
    with pytest.raises(ValueError, match="bad rows") as failed:
        function()
    return traceback.extract_tb(failed.tb)[1:]


def test_a_traceback_names_files_and_lines(pickles):
    sent = fails_within()
    got, args = cloudpickle.loads(start._pickled(sent, {"key": sent}))
    assert args == {"key": got}, "what is there twice is sent once"
    assert files_of(got.__code__) == {__file__}
    assert got.__code__ == sent.__code__
    expected, found = frames_of(sent), frames_of(got)
    assert found == expected
    assert found[-1].line == 'raise ValueError("bad rows")'


def test_each_function_has_its_own_file(pickles):
    names = ["/home/me/train.py", "/home/me/models.py", "<stdin>"]
    functions = []
    for name in names:
        space = {"__name__": "__main__"}
        exec(compile("def build(): return lambda: 7", name, "exec"), space)
        functions.append(space["build"])
    got = cloudpickle.loads(program_pickle.dumps(functions))
    assert [files_of(function.__code__) for function in got] == [{name} for name in names]
    assert [function()() for function in got] == [7, 7, 7]


def test_so_do_methods_and_what_a_program_returns(pickles):
    class Model:
        def call(self):
            return type(self).__name__

    with program_result.open_file() as file:
        program_result.write(file.fileno(), Model)
        got = program_result.value_of(program_result.read(file), "worker:0")
    assert got.call.__code__.co_filename == __file__
    assert got().call() == "Model"
