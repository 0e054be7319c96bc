"""Writes docs/api.md from the sources of python/tfos; with --check only compares.

The page has every public name: what programs import from tfos. It is made without importing
anything, so it is the same on every host.
"""

import ast
import pathlib
import sys

from docstrings import markdown, sections

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tfos"
PAGE = ROOT / "docs" / "api.md"

HEAD = """# API

The public names of tfos, with their arguments and what their docstrings say. `help(tfos.run)` shows the same in Python.

This page is made from python/tfos by `python tools/pages/api_page.py`.
"""  # noqa: E501  (lines of the page)


def source_of(module):
    """The file of a module, such as ``tfos.records``."""
    path = ROOT.joinpath("python", *module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def parsed(module):
    return ast.parse(source_of(module).read_text())


def public_names(module):
    """{name: the module that defines it} of a module; a name that maps to itself is a module."""
    tree = parsed(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy.attach":
            lazily = ast.literal_eval(node.args[1])
            own = {item.name: module for item in definitions(tree)}
            return dict(sorted((own | lazily).items()))
    listed = next(
        (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ),
        [item.name for item in definitions(tree)],
    )
    imported = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
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


def entry(module, name, node):
    """The blocks of one public name: what it is, and, below a class, its values and methods."""
    docstring = ast.get_docstring(node) or ""
    yield f"### `{module}.{name}`"
    if isinstance(node, ast.FunctionDef):
        yield f"`{name}{arguments(node)}`"
        yield from markdown(docstring)
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class `{name}{f'({bases})' if bases else ''}`"
    fields = fields_of(node, docstring)
    yield from markdown(docstring, frozenset({"Attributes"} if fields else ()))
    if fields:
        yield "\n".join(fields)
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            yield from method(name, item)


def fields_of(node, docstring):
    """A line for each value that the body of a class declares."""
    meant = {
        names.partition(",")[0].strip(): meaning.rstrip(".")
        for names, meaning in sections(docstring).get("Attributes", ())
    }
    declared = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    return [
        f"- `{ast.unparse(item)}`: {meant.get(ast.unparse(item.target), '')}".removesuffix(": ")
        for item in declared
        if not ast.unparse(item.target).startswith("_")
    ]


def method(name, node):
    """The blocks of a method or property; none of those that programs don't call."""
    docstring = ast.get_docstring(node) or ""
    if docstring.startswith("For tfos itself"):
        return
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    yield f"#### `{name}.{node.name}`"
    if not marks & {"property", "functools.cached_property"}:
        yield f"`{node.name}{arguments(node, method=True)}`"
    yield from markdown(docstring)


def arguments(node, method=False):
    """The parameters without their types, as a call may have them."""
    args = node.args
    if method and args.args and args.args[0].arg in ("self", "cls"):
        args = ast.arguments(**{**vars(args), "args": args.args[1:]})
    bare = ast.parse(f"def f({ast.unparse(args)}): pass").body[0].args
    for parameter in ast.walk(bare):
        if isinstance(parameter, ast.arg):
            parameter.annotation = None
    return f"({ast.unparse(bare)})"


def section(module):
    blocks = [f"\n## {module}"]
    for name, defined in public_names(module).items():
        if defined == f"{module}.{name}" or name == "__version__":
            continue
        node = definition(defined, name)
        blocks += [f"### `{module}.{name}`"] if node is None else entry(module, name, node)
    return "\n\n".join(blocks) + "\n"


def page():
    modules = [name for name, module in public_names("tfos").items() if module == f"tfos.{name}"]
    return HEAD + "".join(section(module) for module in ["tfos", *(f"tfos.{m}" for m in modules)])


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} differs from the sources: run {sys.argv[0]}")
    else:
        PAGE.write_text(page())
