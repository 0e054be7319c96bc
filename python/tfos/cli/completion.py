"""``tfos completion``: prints what completes command lines of tfos in a shell;
``python -m tfos.cli.completion``.

The script holds all subcommands and options, as the parsers of this installation have them. So it
is to be made again with each version, as shells do that run the command when they start.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfos.base import executable
from tfos.cli.arguments import Parser
from tfos.errors import TfosError


@dataclass(frozen=True)
class Option:
    """names: short and long. value: whether it takes one. choices: all that it may be; none: any
    value, or a file's name. running: "nodes" or "clusters", one of which it names."""

    names: tuple[str, ...]
    help: str
    value: bool
    choices: tuple[str, ...] = ()
    running: str = ""


@dataclass
class Command:
    """A command with what may follow it; ``path`` is all its words but the first, ``tfos``.
    arguments: words of which several may follow, such as names of examples. running: "nodes" or
    "clusters", one of which may follow."""

    path: tuple[str, ...]
    help: str
    options: list[Option] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    running: str = ""

    @property
    def words(self) -> str:
        return " ".join(self.path)

    def all(self) -> Iterator[Command]:
        """This one and those below it."""
        yield self
        for command in self.commands:
            yield from command.all()


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = Parser(
        prog="tfos completion",
        description="Print a script that completes command lines of tfos. Let the shell run it\n"
        "when it starts:\n"
        '  ~/.bashrc                   eval "$(tfos completion bash)"\n'
        '  ~/.zshrc, below compinit    eval "$(tfos completion zsh)"\n'
        "  ~/.config/fish/config.fish  tfos completion fish | source",
    )
    made.add_argument("shell", choices=sorted(_SCRIPTS), help="the shell of the script")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    try:
        print(_SCRIPTS[parsed.shell](tables()), end="")
    except TfosError as error:
        print(f"tfos completion: {error}", file=sys.stderr)
        return 1
    return 0


def tables() -> Command:
    """All commands of this installation. Raises :class:`TfosError` where its executable is not
    there."""
    told = subprocess.run(
        [executable.path(), "command-table"], capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise TfosError(f"the executable does not tell its commands: {told.stderr.strip()}")
    return _native(json.loads(told.stdout), ())


def _native(table: dict[str, Any], path: tuple[str, ...]) -> Command:
    if table["module"]:
        return _of_python(table["module"], path, table["help"])
    options = [
        Option(
            tuple(one["names"]), one["help"], one["value"], tuple(one["choices"]), one["running"]
        )
        for one in table["options"]
    ]
    commands = [_native(one, (*path, one["name"])) for one in table["commands"]]
    return Command(path, table["help"], options, commands, running=table["running"])


def _of_python(name: str, path: tuple[str, ...], help: str) -> Command:
    """A command whose module has a ``parser()`` of argparse, or ``options()``. TensorBoard's have
    neither here."""
    if name == "tfos.node.tensorboard":
        return Command(path, help)
    module = importlib.import_module(name)
    if hasattr(module, "options"):
        options = [Option((name,), "", value) for name, value in module.options().items()]
        return Command(path, help, options)
    return _of_argparse(module.parser(), path, help)


def _of_argparse(made: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Command:
    command = Command(path, help)
    for action in made._actions:  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            command.commands += [
                _of_argparse(below, (*path, name), helps.get(name, ""))
                for name, below in action.choices.items()
            ]
        elif action.option_strings:
            said = (action.help or "") % {**vars(action), "prog": made.prog}
            choices = tuple(map(str, action.choices or ()))
            takes = action.nargs != 0
            command.options.append(Option(tuple(action.option_strings), said, takes, choices))
        elif action.choices:
            # A word out of some, such as the shell: it completes as commands do.
            command.commands += [Command((*path, str(word)), "") for word in action.choices]
        else:
            command.arguments += getattr(action, "completed_by", list)()
    return command


def bash(tfos: Command) -> str:
    """The script for bash."""
    words = []
    for command in tfos.all():
        names = " ".join(name for option in command.options for name in option.names)
        below = " ".join([*(one.path[-1] for one in command.commands), *command.arguments])
        words.append(
            f"        '{command.words}') commands='{below}' running={command.running} "
            f"options='{names}' ;;"
        )
    return _filled(_BASH, tfos, words, "        {cases}) commands='{choices}' options= ;;")


def _filled(template: str, tfos: Command, words: list[str], chosen: str) -> str:
    """The script for a shell with `case`. words: what follows each command. chosen: what follows
    an option that is one of some choices."""
    valued, lines = [], []
    for command in tfos.all():
        for option in command.options:
            cases = "|".join(f"'{command.words} {name}'" for name in option.names)
            if option.choices:
                lines.append(chosen.format(cases=cases, choices=" ".join(option.choices)))
            elif option.running:
                lines.append(f"        ({cases}) running={option.running} options= ;;")
            elif option.value:
                valued.append(cases)
    return template.format(
        paths="|".join(f"'{command.words}'" for command in tfos.all() if command.path),
        words="\n".join(words),
        chosen="\n".join(lines),
        valued="|".join(valued),
    )


# A value that may be anything completes as a file's name, by `-o default`.
_BASH = """\
# Completes command lines of tfos; made by `tfos completion bash`.
_tfos() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local path= commands= running= options= at job=
    COMPREPLY=()
    # "--option=value" and "worker:1" are three words to bash, which replaces the last one.
    if [[ $current == = ]]; then
        current=
    elif [[ $before == = ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    elif [[ $current == : ]]; then
        job=$before: current= before=${{COMP_WORDS[COMP_CWORD-2]}}
    elif [[ $before == : ]]; then
        job=${{COMP_WORDS[COMP_CWORD-2]}}: before=${{COMP_WORDS[COMP_CWORD-3]}}
    fi
    for ((at = 1; at < COMP_CWORD; at++)); do
        case "${{path:+$path }}${{COMP_WORDS[at]}}" in
        {paths}) path="${{path:+$path }}${{COMP_WORDS[at]}}" ;;
        esac
    done
    case "$path" in
{words}
    esac
    case "$path $before" in
{chosen}
        {valued}) return ;;
    esac
    if [[ $current == -* ]]; then
        commands=$options
    elif [[ -n $running ]]; then
        commands=$(tfos running-names "$running" 2>/dev/null)
    fi
    COMPREPLY=($(compgen -W "$commands" -- "$job$current"))
    COMPREPLY=("${{COMPREPLY[@]#"$job"}}")
}}
complete -o default -F _tfos tfos
"""


def zsh(tfos: Command) -> str:
    """The script for zsh."""
    words = []
    for command in tfos.all():
        names = [
            _described(name, option.help) for option in command.options for name in option.names
        ]
        below = [_described(one.path[-1], one.help) for one in command.commands]
        below += [_described(word, "") for word in command.arguments]
        arrays = f"commands=({' '.join(below)}) options=({' '.join(names)})"
        if command.running:
            arrays += f" running={command.running}"
        words.append(f"        ('{command.words}') {arrays} ;;")
    return _filled(_ZSH, tfos, words, "        ({cases}) compadd -- {choices}; return ;;")


def _described(name: str, help: str) -> str:
    """A quoted word of an array for zsh's ``_describe``."""
    text = " ".join(help.split()).replace("'", "'\\''")
    return f"'{name}:{text}'" if text else f"'{name}'"


_ZSH = """\
#compdef tfos
# Completes command lines of tfos; made by `tfos completion zsh`.
_tfos() {{
    local place= running= before=${{words[CURRENT-1]}} at
    local -a commands options
    for ((at = 2; at < CURRENT; at++)); do
        case "${{place:+$place }}${{words[at]}}" in
        ({paths}) place="${{place:+$place }}${{words[at]}}" ;;
        esac
    done
    case "$place" in
{words}
    esac
    case "$place $before" in
{chosen}
        ({valued}) _files; return ;;
    esac
    if [[ ${{words[CURRENT]}} == -* ]]; then
        _describe -o option options
    elif [[ -n $running ]]; then
        compadd -- ${{(f)"$(tfos running-names $running 2>/dev/null)"}}
    elif (( ${{#commands}} )); then
        _describe command commands
    else
        _files
    fi
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _tfos "$@"; else compdef _tfos tfos; fi
"""


#: Fish asks when a person presses the key.
_RUNNING_IN_FISH = "(tfos running-names {} 2>/dev/null)"


def fish(tfos: Command) -> str:
    """The script for fish."""
    paths = " ".join(f"'{command.words}'" for command in tfos.all() if command.path)
    lines = []
    for command in tfos.all():
        at = f"complete -c tfos -n \"__tfos_at '{command.words}'\""
        for one in command.commands:
            lines.append(f"{at} -f -a '{one.path[-1]}'{_said(one.help)}")
        lines += [f"{at} -f -a '{word}'" for word in command.arguments]
        if command.running:
            lines.append(f"{at} -f -a '{_RUNNING_IN_FISH.format(command.running)}'")
        for option in command.options:
            names = "".join(
                f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
                for name in option.names
            )
            takes = ""
            if option.choices:
                takes = f" -x -a '{' '.join(option.choices)}'"
            elif option.running:
                takes = f" -x -a '{_RUNNING_IN_FISH.format(option.running)}'"
            elif option.value:
                takes = " -r"
            lines.append(f"{at}{names}{takes}{_said(option.help)}")
    return _FISH.format(paths=paths, lines="\n".join(lines))


def _said(help: str) -> str:
    text = " ".join(help.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f" -d '{text}'" if text else ""


_FISH = """\
# Completes command lines of tfos; made by `tfos completion fish`.
function __tfos_at
    set -l place
    for word in (commandline -opc)[2..-1]
        set -l further (string join -- ' ' $place $word)
        contains -- "$further" {paths}; and set place $place $word
    end
    set -l whole (string join -- ' ' $place)
    test "$whole" = "$argv[1]"
end
{lines}
"""

_SCRIPTS = {"bash": bash, "fish": fish, "zsh": zsh}


if __name__ == "__main__":
    sys.exit(main())
