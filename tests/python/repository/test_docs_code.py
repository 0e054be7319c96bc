"""The code of README.md and docs/ works: Python blocks run, commands name programs and options that
exist, links and their anchors lead somewhere.

The Python blocks of a page run in one namespace, in their order, on one Spark session of two executors.
Comments of HTML hold what a page does not show: `<!-- python ... -->` is code that runs at that place,
`<!-- fragment: why -->` marks the next block as one that is only compiled. Paths below /tmp, /data and
/models are those of a temporary directory.
"""

import ast
import itertools
import json
import re
import shlex
import subprocess
import sys
import textwrap

import pyspark
import pytest

from support import pages
from support.places import ROOT
from tfos.base import executable

#: Pages whose programs have tests of their own.
TESTED_ELSEWHERE = {
    "docs/connect.md": "cluster/test_connect.py",
    "docs/operate.md": "cli/operate/test_stop_kinds.py",
    "docs/tfrecords.md": "records/spark/test_jar_source.py",
    "docs/tutorial/standalone.md": "walkthroughs/test_tutorials.py",
}

PYTHON = [
    block for page in pages.PAGES for block in pages.blocks(page) if block.language == "python"
]
SHELL = [block for page in pages.PAGES for block in pages.blocks(page) if block.language == "sh"]


def runs(page):
    """The page's Python blocks that are more than fragments."""
    return [block for block in PYTHON if block.page == page and not block.fragment]


PAGES_THAT_RUN = [
    page for page in pages.PAGES if runs(page) and pages.name(page) not in TESTED_ELSEWHERE
]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_blocks_compile(block):
    compile(block.code, str(block), "exec", dont_inherit=True)


def test_a_page_tested_elsewhere_is():
    for page, test in TESTED_ELSEWHERE.items():
        assert f'"{page}"' in (ROOT / "tests/python" / test).read_text()


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", PAGES_THAT_RUN, ids=pages.name)
def test_programs_run(page, spark, tmp_path, leftovers):
    (tmp_path / "models").mkdir()
    namespace = {"__name__": "__main__", "spark": spark}
    for block in runs(page):
        code = re.sub(r'(?<=["\'])/(?:tmp|data|models)/', f"{tmp_path}/models/", block.code)
        # The session is that of all tests.
        code = code.replace("spark.stop()", "pass")
        tree = ast.parse(code)
        ast.increment_lineno(tree, block.line)
        exec(compile(tree, str(block.page), "exec", dont_inherit=True), namespace)


def test_readers_see_most_programs_run():
    fragments = [block for block in PYTHON if block.fragment]
    assert len(fragments) <= len(PYTHON) // 2, [str(block) for block in fragments]


# Commands.

#: Programs that a host has, or that come with Debian's packages, Spark or Hadoop.
OTHER_PROGRAMS = {
    "cd",
    "cmake",
    "ctest",
    "curl",
    "do",
    "done",
    "echo",
    "export",
    "for",
    "git",
    "hdfs",
    "head",
    "mvn",
    "ninja",
    "pip",
    "python",
    "python3",
    "read",
    "spark-class",
    "spark-shell",
    "spark-submit",
    "su",
    "submit",
    "yarn",
    ".",
}
#: Their options that must exist, by the command that lists them.
_HELP = {"spark-submit": [str(pyspark.__path__[0]) + "/bin/spark-submit", "--help"]}


def help_of(*command):
    if command not in help_of.known:
        done = subprocess.run(command, capture_output=True, text=True)
        help_of.known[command] = done.stdout + done.stderr
    return help_of.known[command]


help_of.known = {}


def commands(code):
    """The words of each command in shell code."""
    code = re.sub(r"\\\n\s*", " ", code)
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        # What defines a function has its command inside.
        if words[:1] and words[0].endswith("()"):
            words = words[2:]
        separators = {"&&", "||", "|", ";", "&", "}"}
        for is_end, group in itertools.groupby(words, lambda word: word in separators):
            command = list(group)
            while command and re.fullmatch(r"\w+=.*", command[0]):
                command.pop(0)
            if command and not is_end:
                yield [word.rstrip(";") for word in command]


def unknown_options(words, help_text):
    """The options among the words that are not in a text of help."""
    used = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    return [
        option
        for option in used
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_text)
    ]


def faults_of(command, folder=ROOT):
    """What is wrong with a command: programs, files and options that don't exist."""
    program, *words = command
    if program == "make":
        makefile = (ROOT / "Makefile").read_text()
        return [
            f"no target {word}"
            for word in words
            if "=" not in word and not re.search(rf"(?m)^{re.escape(word)}:", makefile)
        ]
    if program.removeprefix(".venv/bin/") == "tfos":
        return faults_of_tfos(words)
    if program == "pip":
        extras = re.findall(r"(?:^|\s)\.\[([\w,]+)\]", " ".join(words))
        known = re.findall(r"(?m)^(\w+) = \[", (ROOT / "pyproject.toml").read_text())
        return [
            f"no extra {extra}"
            for extra in ",".join(extras).split(",")
            if extra and extra not in known
        ]
    if program in ("cmake", "ctest"):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())
        known = {
            preset["name"]
            for presets in presets.values()
            if isinstance(presets, list)
            for preset in presets
        }
        return [
            f"no preset {after}"
            for word, after in itertools.pairwise(words)
            if word == "--preset" and after not in known
        ]
    if (
        program.removeprefix(".venv/bin/") in ("python", "python3")
        and words
        and words[0].endswith(".py")
    ):
        return faults_of_script(words, folder)
    if program in _HELP:
        end = next(
            (n for n, word in enumerate(words) if word.endswith((".py", ".jar"))), len(words)
        )
        return [
            f"no option {option}"
            for option in unknown_options(words[:end], help_of(*_HELP[program]))
        ]
    if "/" in program:
        found = (
            (ROOT / program).exists()
            or (folder / program).exists()
            or program.startswith((".venv/bin/", "build/"))
        )
        return [] if found else [f"no file {program}"]
    return [] if program in OTHER_PROGRAMS else [f"no program {program}"]


#: What tfos itself starts: no help lists them.
INTERNAL_COMMANDS = ("agent", "coordinator", "parameter-server")


def faults_of_tfos(words):
    native = subprocess.run([executable.path(), "--help"], capture_output=True, text=True).stdout
    subcommand = words[0] if words and not words[0].startswith("-") else ""
    known_to_users = re.search(rf"(?m)^\s*{subcommand}\b", native)
    if subcommand and subcommand not in INTERNAL_COMMANDS and not known_to_users:
        return [f"no subcommand {subcommand}"]
    if subcommand == "submit":
        known = help_of(executable.path(), "submit", "--help") + help_of(*_HELP["spark-submit"])
        words = words[
            : next((n for n, word in enumerate(words) if word.endswith(".py")), len(words))
        ]
    elif subcommand in ("records", "examples") and len(words) > 1 and words[1].isalpha():
        known = help_of(executable.path(), subcommand, words[1], "--help")
    elif subcommand == "tensorboard":
        return []  # Its options are TensorBoard's.
    else:
        known = help_of(executable.path(), *filter(None, [subcommand]), "--help")
    return [f"no option {option} of tfos {subcommand}" for option in unknown_options(words, known)]


def faults_of_script(words, folder):
    script = next(
        (place / words[0] for place in (ROOT, folder) if (place / words[0]).exists()), None
    )
    if script is None:
        return [f"no file {words[0]}"] if "/" in words[0] else []
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    # Some share options with scripts beside them, examples with others.
    sharing = [*script.parent.glob("*.py"), *(ROOT / "python/tfos/examples").glob("*.py")]
    source = script.read_text() + "".join(path.read_text() for path in sharing)
    faults = [f"no option {option} of {words[0]}" for option in unknown_options(own, source)]
    return faults + (faults_of(words[words.index("--") + 1 :], folder) if "--" in words else [])


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_exist(block):
    faults = {
        shlex.join(command): found
        for command in commands(block.code)
        if (found := faults_of(command, block.page.parent))
    }
    assert not faults


def test_commands_in_sentences_exist():
    faults = {}
    # What keys are made from begins with tfos in the pages of formats.
    for page in (page for page in pages.PAGES if page.parent.name != "formats"):
        for line, code in pages.inline_code(page):
            if not re.match(
                r"(\.venv/bin/)?(tfos|make|python|pip|cmake|ctest|tools/\S+) [\w.\[\"-]", code
            ):
                continue
            code = code.replace("...", "").replace("|", " ")
            for command in commands(code):
                found = faults_of([word for word in command if word.isascii()], page.parent)
                if found:
                    faults[f"{pages.name(page)}:{line}: {code}"] = found
    assert not faults


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("make nothing", "no target nothing"),
        ("tfos fly --high", "no subcommand fly"),
        ("tfos infer --modell x", "no option --modell of tfos infer"),
        ("tfos submit --python-envv x train.py --mine", "no option --python-envv of tfos submit"),
        ("pip install '.[sparkle]'", "no extra sparkle"),
        ("cmake --preset fast && make build", "no preset fast"),
        (
            "python bench/feed/compare.py --outputs x",
            "no option --outputs of bench/feed/compare.py",
        ),
        ("python bench/feed/compete.py", "no file bench/feed/compete.py"),
        ("tools/launch.sh", "no file tools/launch.sh"),
        ("spark-submit --jar x program.py --theirs", "no option --jar"),
        ("frobnicate", "no program frobnicate"),
    ],
)
def test_a_wrong_command_is_found(code, fault):
    assert [found for command in commands(code) for found in faults_of(command)] == [fault]


# Messages.

#: Messages in tables of troubleshooting that aren't tfos's.
OTHERS_MESSAGES = (
    "running beyond physical memory limits",
    "Your input ran out of data; interrupting training",
    "./environment/bin/python: No such file or directory",
    "ModuleNotFoundError",
    "ValueError ... PerReplica",
    "ConnectTimeoutException",
    "ConnectException",
    "UnknownHostException",
    "AccessControlException: Permission denied: user=...",
    "Failed to replace a bad datanode",
    'Cannot run program ".venv/bin/python"',
    "hdfs:",
    "MultiWorkerMirroredStrategy",
    "No executor resource configs were specified for the following task configs: gpu",
    "fit",
)


def messages_of_sources():
    """The texts of sources, literals that follow one another joined."""
    patterns = ("python/**/*.py", "src/**/*.h", "src/**/*.cc", "jvm/src/main/**/*.java")
    files = [file for pattern in patterns for file in ROOT.glob(pattern)]
    files = [file for file in files if not file.name.endswith("_test.cc")]
    return "\n".join(re.sub(r'["\']\s*\+?\s*f?["\']', "", file.read_text()) for file in files)


def quoted_messages():
    """(page, text) of the first cells of tables of what people see."""
    for name in ("docs/troubleshooting.md", "docs/hdfs.md"):
        for row in re.findall(
            r"(?m)^\| (.*?) \|", (ROOT / name).read_text().partition("| message or symptom")[2]
        ):
            for text in re.findall(r"`([^`]+)`", row):
                # Metrics and settings are in tables, too.
                if " " in text and text not in OTHERS_MESSAGES:
                    yield name, text


@pytest.mark.parametrize(("page", "text"), sorted(set(quoted_messages())))
def test_messages_that_pages_quote_are_in_the_sources(page, text):
    sources = messages_of_sources()
    # What differs from case to case: times, paths, numbers, names, what is left out.
    parts = re.split(
        r"for \d+ s|by SIG[A-Z]+ \(signal|\S*/\S*|\.\.\.|\b[NMapxn]\b|[\w:]*\d[\w:]*|s3a://|\(\.\.\.\)|[^\w\s'.,-]",
        text,
    )
    parts = [part.strip() for part in parts if len(part.strip().split()) > 1]
    assert parts, text
    for part in parts:
        assert part in sources, part


# Links.


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name)
def test_links_and_their_anchors_lead_somewhere(page):
    for line, target in pages.links(page):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{pages.name(page)}:{line} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in pages.anchors(file), f"{pages.name(page)}:{line} links to {target}"


def test_headings_become_anchors(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Feeding `ctx.dataset`\n\n## TensorFlow's own\n\n## Twice\n\n## Twice\n\n```\n# code\n```\n\n"
        "## `tfos.run` and [links](x.md)\n\n## a_b, c-d!\n"
    )
    assert pages.anchors(page) == {
        "feeding-ctxdataset",
        "tensorflows-own",
        "twice",
        "twice-1",
        "tfosrun-and-links",
        "a_b-c-d",
    }


def test_numbers_of_the_readme_are_those_of_the_measurements():
    measured = (ROOT / "docs/performance.md").read_text()
    (table,) = re.findall(r"(?m)^\| on two cores.*\n(?:\|.*\n)+", (ROOT / "README.md").read_text())
    number = r"(?<![\d.])\d[\d,]*(?:\.\d+)?(?![\d.]*\d)"
    values = {float(found.replace(",", "")) for found in re.findall(number, measured)}
    shown = re.findall(number, table.replace("25 million", ""))
    assert len(shown) >= 8
    for text in shown:
        digits = len(text.partition(".")[2])
        assert float(text.replace(",", "")) in {round(value, digits) for value in values}, text


@pytest.mark.parametrize("chart", ["feed_chart.py", "performance_chart.py", "recovery_chart.py"])
def test_a_chart_is_drawn_from_the_measurements(chart):
    subprocess.run([sys.executable, ROOT / "tools/pages" / chart, "--check"], check=True)


def test_hidden_code_and_fragments_are_told_apart(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        textwrap.dedent("""\
        <!-- python
        x = 1
        -->
        <!-- fragment: needs y -->
        ```python
        x + y
        ```

        ```python
        assert x == 1
        ```
        """)
    )
    assert [(block.line, block.code, block.fragment) for block in pages.blocks(page)] == [
        (1, "x = 1\n", ""),
        (5, "x + y\n", "needs y"),
        (9, "assert x == 1\n", ""),
    ]
