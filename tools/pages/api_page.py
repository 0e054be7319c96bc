"""Writes docs/api.md from the sources of python/tfos; with --check only compares.

The page has every public name: what programs import from tfos. It is made without importing
anything, so it is the same on every host.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "tfos"
PAGE = ROOT / "docs" / "api.md"

HEAD = """# API

The public names of tfos, their arguments and the first words of their docstrings. `help(tfos.run)` shows all of it.

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
    """The lines of one public name."""
    if isinstance(node, ast.FunctionDef):
        yield f"- `{module}.{name}{arguments(node)}`: {first_words(node)}"
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"- class `{module}.{name}`{f' (`{bases}`)' if bases else ''}: {first_words(node)}"
    meant = attributes(node)
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            marks = {ast.unparse(mark) for mark in item.decorator_list}
            is_value = marks & {"property", "functools.cached_property"}
            shown = item.name if is_value else f"{item.name}{arguments(item, method=True)}"
            yield f"  - `{shown}`: {first_words(item)}".removesuffix(": ")
        elif isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            meaning = meant.get(ast.unparse(item.target), "")
            yield f"  - `{ast.unparse(item)}`: {meaning}".removesuffix(": ")


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


def attributes(node):
    """{field: what it is} of the section "Attributes" of a class's docstring. Fields that share a
    line, as ``host, port``, have it at the first."""
    section = re.search(r"(?m)^Attributes:\n((?: {4}.*\n?)+)", ast.get_docstring(node) or "")
    entries = re.split(r"(?m)^ {4}(?=\w)", section[1]) if section else []
    parts = (entry.partition(": ") for entry in entries)
    return {
        names.partition(",")[0].strip(): in_markdown(" ".join(meaning.split()).rstrip("."))
        for names, _, meaning in parts
        if meaning
    }


def first_words(node):
    """The first sentence of a docstring, in Markdown."""
    text = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    return in_markdown(re.split(r"(?<=\w[\w`)])\. |: (?=``)", text, maxsplit=1)[0].rstrip(".:"))


def in_markdown(text):
    """The markup of docstrings as Markdown has it."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    return text.replace("|", r"\|")


def section(module):
    lines = [f"\n## {module}\n"]
    for name, defined in public_names(module).items():
        if defined == f"{module}.{name}" or name == "__version__":
            continue
        node = definition(defined, name)
        lines += [f"- `{module}.{name}`"] if node is None else entry(module, name, node)
    return "\n".join(lines) + "\n"


def page():
    modules = [name for name, module in public_names("tfos").items() if module == f"tfos.{name}"]
    return HEAD + "".join(section(module) for module in ["tfos", *(f"tfos.{m}" for m in modules)])


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} differs from the sources: run {sys.argv[0]}")
    else:
        PAGE.write_text(page())
