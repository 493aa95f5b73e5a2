"""Print the completion script of a shell, which completes verbs, options and their values.

Needs the extra `cli`: pip install 'pykafka2[cli]'.

examples:
  pykafka2 completion bash > ~/.local/share/bash-completion/completions/pykafka2
  pykafka2 completion zsh > ~/.zfunc/_pykafka2           (a folder of your fpath)
  pykafka2 completion fish > ~/.config/fish/completions/pykafka2.fish
"""

from __future__ import annotations

import argparse

from pykafka2.cli.common.output import CLI_EXTRA, Output

SUMMARY = "print the completion script for bash, zsh or fish"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(arguments: argparse.Namespace, output: Output) -> int:
    try:
        import shtab
    except ImportError:
        output.error(f"completion needs the package shtab: {CLI_EXTRA}")
        return 1
    from pykafka2.cli.main import build_parser

    output.line(shtab.complete(build_parser(), shell=arguments.shell))
    return 0
