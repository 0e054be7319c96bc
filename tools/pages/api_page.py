"""Writes docs/api.md from the sources of python/tfos; with --check only compares.

The page has every public name: what programs import from tfos. Below them it has the classes that
these names return, or that their docstrings refer to. It is made without importing anything, so it
is the same on every host.
"""

import ast
import functools
import pathlib
import re
import sys

from docstrings import in_markdown, markdown, sections

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tfos"
PAGE = ROOT / "docs" / "api.md"

HEAD = """# API

The public names of tfos, with their arguments and what their docstrings say. `help(tfos.run)` shows the same in Python.

This page is made from python/tfos by `.venv/bin/python tools/pages/api_page.py`.
"""  # noqa: E501  (lines of the page)


def source_of(module):
    """The file of a module, such as ``tfos.records``."""
    path = ROOT.joinpath("python", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def parsed(module):
    return ast.parse(source_of(module).read_text())


def public_names(module):
    """{name: the module that defines it} of a module; a name that maps to itself is a module."""
    tree = parsed(module)
    listed = next(
        (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ),
        [item.name for item in definitions(tree)],
    )
    # A package of lazy names imports them for type checkers.
    imported = {
        name: what if source_of(what).exists() else what.rpartition(".")[0]
        for name, what in imports(module).items()
    }
    return {name: imported.get(name, module) for name in sorted(listed)}


def definitions(tree):
    return [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]


def definition(module, name):
    """The class or function, wherever the module has it from; None for other values."""
    return next((node for node in definitions(parsed(module)) if node.name == name), None)


def imports(module):
    """{name: what it stands for, as ``tfos.records.Part``} of all that a module imports by name."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.ImportFrom) and not node.level
        for alias in node.names
    }


def class_at(dotted):
    """(module, name) of the public class of tfos that this is, wherever it is defined, or None."""
    module, _, name = dotted.rpartition(".")
    if not module.startswith("tfos") or not source_of(module).exists():
        return None
    module = public_names(module).get(name, module)
    known = source_of(module).exists() and isinstance(definition(module, name), ast.ClassDef)
    return (module, name) if known else None


def classes_in(module, node):
    """(module, name) of each class of tfos that a function, a method or a class leads to: by what
    it returns, and by what its docstring refers to."""
    known = imports(module)
    for function in ast.walk(node):
        if not isinstance(function, ast.FunctionDef) or not is_shown(function):
            continue
        for part in ast.walk(function.returns) if function.returns else ():
            if isinstance(part, ast.Name):
                yield class_at(known.get(part.id, f"{module}.{part.id}"))
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                yield class_at(f"{known.get(part.value.id, '')}.{part.attr}")
    for item in ast.walk(node):
        if isinstance(item, ast.FunctionDef | ast.ClassDef) and is_shown(item):
            for dotted in re.findall(r":class:`~?(tfos\.[\w.]+)`", ast.get_docstring(item) or ""):
                yield class_at(dotted)


def is_shown(node):
    """Whether programs may use a class, a function or a method."""
    docstring = ast.get_docstring(node) or ""
    return not node.name.startswith("_") and not docstring.startswith("For tfos itself")


def entry(shown_as, module, node):
    """The blocks of one public name: what it is, and, below a class, its values and methods."""
    docstring = ast.get_docstring(node) or ""
    yield f"### `{shown_as}`"
    if isinstance(node, ast.FunctionDef):
        yield f"`{node.name}{arguments(module, node)}`"
        yield from markdown(docstring)
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class `{node.name}{f'({bases})' if bases else ''}`"
    fields = fields_of(module, node, docstring)
    yield from markdown(docstring, frozenset({"Attributes"} if fields else ()))
    if fields:
        yield "\n".join(fields)
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and is_shown(item):
            yield from method(module, node.name, item)


def fields_of(module, node, docstring):
    """A line for each value that the body of a class declares."""
    meant = {
        names.partition(",")[0].strip(): meaning.rstrip(".")
        for names, meaning in sections(docstring).get("Attributes", ())
    }
    lines = []
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            meaning = meant.get(ast.unparse(item.target)) or comment_above(module, item).rstrip(".")
            lines.append(f"- `{declared(module, item)}`: {meaning}".removesuffix(": "))
    return lines


def declared(module, item):
    """A field with its type, and its default as far as that can be told in a few words."""
    default = item.value
    if isinstance(default, ast.Call):  # of dataclasses.field
        default = None
    shown = ast.AnnAssign(item.target, item.annotation, with_values(module, default), simple=1)
    return ast.unparse(ast.fix_missing_locations(shown))


def comment_above(module, node):
    """The comment that begins with ``#:`` above a line, as Markdown."""
    lines = source_of(module).read_text().splitlines()[: node.lineno - 1]
    text = []
    while lines and lines[-1].strip().startswith("#:"):
        text.insert(0, lines.pop().strip().removeprefix("#:").strip())
    return in_markdown(" ".join(text))


def value(shown_as, module, name):
    """The blocks of a public name that is neither a class nor a function."""
    yield f"### `{shown_as}`"
    for node in parsed(module).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if [ast.unparse(target) for target in targets if target] != [name]:
            continue
        if isinstance(node, ast.AnnAssign):
            yield f"`{name}: {ast.unparse(node.annotation)}`"
        else:
            yield f"`{ast.unparse(node)}`"
        if comment := comment_above(module, node):
            yield comment


def method(module, name, node):
    """The blocks of a method or property."""
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    yield f"#### `{name}.{node.name}`"
    if not marks & {"property", "functools.cached_property"}:
        yield f"`{node.name}{arguments(module, node, method=True)}`"
    yield from markdown(ast.get_docstring(node) or "")


def arguments(module, node, method=False):
    """The parameters without their types, as a call may have them."""
    args = node.args
    if method and args.args and args.args[0].arg in ("self", "cls"):
        args = ast.arguments(**{**vars(args), "args": args.args[1:]})
    bare = ast.parse(f"def f({ast.unparse(args)}): pass").body[0].args
    for parameter in ast.walk(bare):
        if isinstance(parameter, ast.arg):
            parameter.annotation = None
    bare.defaults = [with_values(module, default) for default in bare.defaults]
    bare.kw_defaults = [with_values(module, default) for default in bare.kw_defaults]
    return f"({ast.unparse(bare)})"


def with_values(module, default):
    """A default with the value of a constant in place of its name: readers can't look it up."""
    if not isinstance(default, ast.Name):
        return default
    defined, name = imports(module).get(default.id, f"{module}.{default.id}").rsplit(".", 1)
    for node in parsed(defined).body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [name]:
            return node.value
    return default


def section(module):
    """A module's part of the page, and the classes that it has: (module, name)."""
    blocks = [f"\n## {module}", *markdown(ast.get_docstring(parsed(module)) or "")]
    found = []
    for name, defined in public_names(module).items():
        if defined == f"{module}.{name}" or name == "__version__":
            continue
        node = definition(defined, name)
        if node is None:
            blocks += value(f"{module}.{name}", defined, name)
        elif is_shown(node):
            blocks += entry(f"{module}.{name}", defined, node)
            found.append((defined, node))
    return "\n\n".join(blocks) + "\n", found


def returned(found):
    """The part with the classes that what was ``found`` in the modules leads to, one to the
    next."""
    listed = {(module, node.name) for module, node in found}
    more = []
    for module, node in found:  # It grows.
        for place in classes_in(module, node):
            if place and place not in listed and is_shown(definition(*place)):
                listed.add(place)
                more.append(place)
                found.append((place[0], definition(*place)))
    blocks = ["\n## Classes that calls return", "Programs get them, and don't make them."]
    for module, name in sorted(more, key=lambda place: place[1]):
        blocks += entry(f"{module}.{name}", module, definition(module, name))
    return "\n\n".join(blocks) + "\n"


def page():
    modules = [name for name, module in public_names("tfos").items() if module == f"tfos.{name}"]
    parts = [section(module) for module in ["tfos", *(f"tfos.{m}" for m in modules)]]
    found = [pair for _, pairs in parts for pair in pairs]
    return HEAD + "".join(text for text, _ in parts) + returned(found)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} differs from the sources: run {sys.argv[0]}")
    else:
        PAGE.write_text(page())
