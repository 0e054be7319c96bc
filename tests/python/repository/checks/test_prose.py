"""The English of pages, comments and docstrings keeps the rules of tools/checks/prose.toml."""

import dataclasses
import subprocess
import sys

import pytest

import prose
from support.places import ROOT

RULES = prose.read_rules()
FIVE = "one two three four five "


def names(text, lengths=False):
    """The names of the rules that a text breaks, or "length"."""
    return [
        finding.split('"')[1] if finding.startswith('"') else "length"
        for finding in prose.findings(text, RULES, lengths)
    ]


def test_pages_and_comments_keep_the_rules():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/checks/prose.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("The wheel has to be built there.", "has to"),
        ("Hosts have to be reachable.", "has to"),
        ("A queue is no list.", "is no X"),
        ("So many nodes are asked.", "so many X"),
        ("All types but for maps are fed.", "but for"),
        ("Who listens on the network reads nothing.", "who + verb"),
        ("It is sent only to who has proved it.", "who + verb"),
        ("Loops of one's own pass gradients.", "of one's own"),
        ("It runs a program of yours.", "of yours"),
        ("Its agent ended without a word.", "without a word"),
        ("Legacy Keras works as well.", "as well"),
        ("They work as ever.", "as ever"),
        ("The task is none of these.", "is none of"),
        ("Nobody has asked for so long.", "for so long"),
    ],
)
def test_a_pattern_is_found(text, rule):
    assert names(text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "There is no such file.",
        "There is none of that name.",
        "It has waited for so long that it may go.",
        "It is no longer used.",
        "Anyone who listens reads nothing.",
        "People who trust it load it.",
        "This is as well known as that.",
        "Who needs this?",
        "Everything but formats is checked.",
    ],
)
def test_plain_english_passes(text):
    assert names(text) == []


def test_a_sentence_may_have_as_many_words_as_the_rules_say():
    longest = "Word " * RULES.longest_sentence
    assert names(f"{longest.strip()}.", lengths=True) == []
    assert names(f"{longest}more.", lengths=True) == ["length"]
    assert names(f"{longest}more.", lengths=False) == []


def test_each_sentence_is_measured_by_itself():
    text = f"First {FIVE * 6}end. Second {FIVE * 6}end: `code` goes on. Third {FIVE * 6}(as here)."
    assert names(text, lengths=True) == []


def test_code_is_one_word_without_patterns():
    page = "Call `this has to be ignored` now.\n\n```sh\nand this has to be, too\n```\n\n<!-- has to -->\n"
    texts = [text for _, text, _ in prose.texts_of_page(page)]
    assert texts == [f"Call {prose.CODE} now."]


def test_cells_of_tables_are_texts_by_themselves():
    page = f"| a | b |\n|---|---|\n| {FIVE * 5}x | {FIVE * 5}y |\n\nBelow.\n"
    assert [(line, lengths) for line, _, lengths in prose.texts_of_page(page, cells_too=False)] == [
        (1, False),
        (1, False),
        (3, False),
        (3, False),
        (5, True),
    ]
    assert all(lengths for _, _, lengths in prose.texts_of_page(page))


def test_comments_and_docstrings_are_found_with_their_lines():
    python = (
        '"""Opens\nit."""\nx = "# none"  # One\n# two.\n\n\ndef f():\n    """Says `has to`."""\n'
    )
    assert sorted(prose.texts_of_python(python)) == [
        (1, "Opens\nit.", True),
        (3, "One\n\ntwo.", True),
        (8, "Says `has to`.", True),
    ]
    native = '/// One\n/// two.\nint x = 1;  // three\nconst char* s = "// none";\n/* Four\n * five. */\n'
    assert list(prose.texts_of_c_family(native)) == [
        (1, "One\ntwo.\n\nthree", True),
        (5, "Four\nfive.", True),
    ]

    script = "#!/bin/sh\n# One\n# two.\necho '# none'\n  # Three.\n#\n"
    assert list(prose.texts_of_shell(script)) == [(2, "One\ntwo.", True), (5, "Three.", True)]


def test_all_code_is_read():
    kinds = ["*.c", "*.cc", "*.h", "*.java", "*.js", "*.py", "*.scala", "*.sh", "*CMakeLists.txt"]
    tracked = subprocess.run(
        ["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True
    )
    read = {str(path.relative_to(ROOT)) for path in prose.named(RULES.sources, RULES.of_others)}
    assert set(tracked.stdout.split()) - read == {
        "docs/assets/iframe-worker/iframe-worker.js",
        "src/control/page/uplot/uplot.js",
        "tests/python/repository/checks/test_prose.py",
    }


def test_messages_are_found_as_people_read_them():
    python = 'raise E(\n    f"host {name} has "\n    "to be reachable"\n)\nx = {"two words": 1}\n'
    assert list(prose.texts_of_python(python)) == [
        (2, f"host {prose.CODE} has to be reachable", True)
    ]
    cpp = 'Bad("the file "\n    "{} is no index");\nx = "two words";\n'
    assert list(prose.texts_of_c_family(cpp)) == [(1, "the file {} is no index", True)]
    java = 'throw new E("it is " + what + " and has to be "\n    + "that one");\n'
    assert [text for _, text, _ in prose.texts_of_c_family(java)] == [" and has to be that one"]


LONG = f"Word {FIVE * 7}end."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", f'"""Opens.\n\nArgs:\n    it: {LONG}\n"""\n'),
        ("a.py", f"x = 1  # Behind code.\n# {LONG}\n"),
        ("a.py", f'raise E("{LONG}")\n'),
        ("a.h", f"/// - {LONG}\n"),
        ("a.h", f"/*\n * {FIVE * 4}\n * {FIVE * 4}\n */\n"),
        ("a.sh", f"# {LONG}\n"),
    ],
)
def test_sentences_of_sources_are_measured(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (finding,) = prose.check(tmp_path / name, RULES)
    assert "words (at most 35)" in finding


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", f'"""Opens.\n\n    {LONG}\n\nCloses.\n"""\n'),
        ("a.py", f'"""Opens.\n\n| {LONG} |\n"""\n'),
        ("a.py", f'"""Opens.\n\nA  {FIVE * 4}\nB  {FIVE * 4}\n"""\n'),
        ("a.py", f"x = 1  # {FIVE * 4}\ny = 2  # {FIVE * 4}\n"),
        ("a.py", f'run("""import it\n{LONG}""")\n'),
        ("a.py", f'write("<svg {FIVE * 8}>")\n'),
        ("a.cc", f'Matches("{FIVE * 8}\\\\d+");\n'),
        ("a.h", f"/// As in:\n///   {LONG}\n"),
        ("a.h", f"/// Done.\n/// - {FIVE * 4}\n/// - {FIVE * 4}\n"),
    ],
)
def test_code_lists_and_tables_of_sources_are_not_measured(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert prose.check(tmp_path / name, RULES) == []


def test_the_message_of_the_last_commit_is_read(tmp_path):
    assert prose.check_commit(tmp_path, RULES) == []

    def commit(message):
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        for command in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", message]):
            subprocess.run(["git", *command], cwd=tmp_path, check=True)
        return prose.check_commit(tmp_path, RULES)

    (subject,) = commit("This has to go")
    assert subject.startswith('HEAD\'s message: "has to"')
    (body,) = commit(f"Go\n\n{LONG}")
    assert body.startswith("HEAD's message: 37 words")
    assert commit("Go\n\nIt was needed.") == []


def test_a_file_s_findings_say_where_they_are(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nIt has to go.\n")
    (finding,) = prose.check(page, RULES)
    assert finding.startswith(f'{page}:3: "has to"')
    rules = dataclasses.replace(RULES, patterns=[])
    assert prose.check(page, rules) == []
