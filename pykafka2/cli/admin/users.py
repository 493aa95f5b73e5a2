"""List, add, alter and delete the users of a cluster (SCRAM credentials).

A password is read from the terminal, a file or stdin, never from the command line. It is hashed before it is
sent, and neither printed nor logged.

examples:
  pykafka2 users add ann                    asks for the password
  pykafka2 users list
  pykafka2 users ACTION --help              what an action does, with examples
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_yes, change, checked, found, is_confirmed
from pykafka2.cli.common.output import Output, is_terminal
from pykafka2.cli.common.parsing import Parser, UsageError, positive
from pykafka2.cli.common.secrets import first_line
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.text import counted

SUMMARY = "list, add, alter and delete users (SCRAM)"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# list
# ---------------------------------------------------------------------------------------------------


def _configure_list(parser: Parser) -> None:
    parser.add_argument("users", nargs="*", metavar="USER", help="only these users")


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        users, code = found(
            output,
            client.describe_user_scram_credentials(arguments.users or None, raise_errors=False),
        )
    output.table(
        ["user", "mechanism", "iterations"],
        [[user, one.mechanism, one.iterations] for user, infos in sorted(users.items()) for one in infos],
    )
    return code


# ---------------------------------------------------------------------------------------------------
# add, alter
# ---------------------------------------------------------------------------------------------------


def _configure_password(parser: Parser) -> None:
    parser.add_argument("user", metavar="USER", help="the name")
    parser.add_argument(
        "--mechanism",
        type=str.upper,
        choices=MECHANISMS,
        default=MECHANISMS[0],
        help=f"the mechanism: {' or '.join(MECHANISMS)} ({MECHANISMS[0]})",
    )
    parser.add_argument(
        "--iterations",
        type=positive,
        default=8192,
        metavar="N",
        help="rounds of hashing, from 4096 to 16384 (8192)",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--password-file", metavar="FILE", help="the password is the first line of this file")
    source.add_argument(
        "--password-stdin", action="store_true", help="the password is the first line of stdin"
    )


def _add(arguments: argparse.Namespace, output: Output) -> int:
    return _set_password(arguments, output, is_new=True)


def _alter(arguments: argparse.Namespace, output: Output) -> int:
    return _set_password(arguments, output, is_new=False)


def _set_password(arguments: argparse.Namespace, output: Output, *, is_new: bool) -> int:
    from pykafka2.admin import UserScramCredentialUpsertion

    user, mechanism = arguments.user, arguments.mechanism
    password = _password(arguments)
    with connection.connected_admin(arguments) as client:
        has_credential = mechanism in client.describe_scram_users([user]).get(user, {})
        if is_new and has_credential:
            output.error(
                f"{user}: has a {mechanism} credential already; use users alter to set a new password"
            )
            return 1
        if not is_new and not has_credential:
            output.error(f"{user}: has no {mechanism} credential; use users add")
            return 1
        credential = UserScramCredentialUpsertion(user, password, mechanism, arguments.iterations)
        return change(
            output,
            [user],
            lambda _: client.alter_user_scram_credentials([credential], raise_errors=False),
            "added" if is_new else "altered",
            lambda name: {"user": name, "mechanism": mechanism},
        )


def _password(arguments: argparse.Namespace) -> str:
    """Return the password; no error shows it."""
    if arguments.password_file is not None:
        name = f"--password-file {arguments.password_file}"
        text = first_line(name, arguments.password_file)
    elif arguments.password_stdin:
        name = "--password-stdin"
        text = first_line(name)
    elif is_terminal(sys.stdin):
        from getpass import getpass

        name, text = "the password", getpass(f"Password of {arguments.user}: ")
        if text and getpass("Again: ") != text:
            raise UsageError("the passwords differ; nothing was changed")
    else:
        raise UsageError("stdin is no terminal; use --password-stdin or --password-file FILE")
    if not text:
        raise UsageError(f"{name}: the password is empty; nothing was changed")
    return text


# ---------------------------------------------------------------------------------------------------
# delete
# ---------------------------------------------------------------------------------------------------


def _configure_delete(parser: Parser) -> None:
    parser.add_argument("users", nargs="+", metavar="USER", help="the names")
    parser.add_argument(
        "--mechanism",
        type=str.upper,
        choices=MECHANISMS,
        help=f"only the credential for {' or '.join(MECHANISMS)} (all)",
    )
    add_yes(parser)


def _delete(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import Outcomes, UserScramCredentialDeletion

    question = f"Delete {counted(set(arguments.users), 'user')}"
    if not is_confirmed(arguments, output, question, arguments.users):
        return 1

    def call(names: list[str]) -> Outcomes[str, Any]:
        if arguments.mechanism:
            mechanisms = {name: [arguments.mechanism] for name in names}
            errors = {}
        else:
            known = client.describe_user_scram_credentials(names, raise_errors=False)
            mechanisms = {name: [one.mechanism for one in infos] for name, infos in known.succeeded.items()}
            errors = known.errors
        deleted: dict[str, list[str]] = {}
        # A call can contain each user once, hence a call for each of a user's mechanisms.
        while any(mechanisms.values()):
            outcomes = client.alter_user_scram_credentials(
                [UserScramCredentialDeletion(name, left.pop()) for name, left in mechanisms.items() if left],
                raise_errors=False,
            )
            errors.update(outcomes.errors)
            for name in outcomes.succeeded:
                deleted.setdefault(name, [])
        return Outcomes({name: None for name in deleted if name not in errors}, errors)

    with connection.connected_admin(arguments) as client:
        return change(output, arguments.users, call, "deleted", lambda name: {"user": name})


ACTIONS = (
    Action(
        "list",
        "list users with their mechanisms",
        _list,
        _configure_list,
        "  pykafka2 users list\n  pykafka2 users list ann --json",
    ),
    Action(
        "add",
        "add a user, or a further mechanism of a user",
        _add,
        _configure_password,
        "  pykafka2 users add ann                            asks for the password\n"
        "  pykafka2 users add ann --mechanism SCRAM-SHA-256 --password-file secret.txt\n"
        "  vault read -field=password kafka/ann | pykafka2 users add ann --password-stdin",
    ),
    Action(
        "alter",
        "set another password",
        _alter,
        _configure_password,
        "  pykafka2 users alter ann                          asks for the password\n"
        "  pykafka2 users alter ann --iterations 16384 --password-stdin < secret.txt",
    ),
    Action(
        "delete",
        "delete users, or one of their mechanisms",
        _delete,
        _configure_delete,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 users delete ann bob\n"
        "  pykafka2 users delete ann --mechanism SCRAM-SHA-256 --yes",
    ),
)
