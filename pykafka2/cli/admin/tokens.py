"""Create, list, renew and expire delegation tokens, by which programs log in as their owner.

The connection must be authenticated, and not by a delegation token.

examples:
  pykafka2 tokens create --max-lifetime 7d --hmac-file token.secret
  pykafka2 tokens list
  pykafka2 tokens ACTION --help            what an action does, with examples
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_yes, change, checked, is_confirmed
from pykafka2.cli.common.output import Output, Time, time_or_none
from pykafka2.cli.common.parsing import Parser, duration
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.errors import DelegationTokenNotFound, IllegalArgument, KafkaError
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient
    from pykafka2.admin import DelegationToken, Outcomes

SUMMARY = "create, list, renew and expire delegation tokens"


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


def _fields(token: DelegationToken) -> dict[str, Any]:
    """Return what may be shown to anyone: all but the HMAC."""
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_time": Time(token.issue_time_ms),
        "expiry_time": Time(token.expiry_time_ms),
        "max_time": Time(token.max_time_ms),
    }


# ---------------------------------------------------------------------------------------------------
# create, list
# ---------------------------------------------------------------------------------------------------


def _configure_create(parser: Parser) -> None:
    parser.add_argument("--owner", metavar="TYPE:NAME", help="the owner, such as User:ann (you)")
    parser.add_argument(
        "--renewer",
        action="append",
        default=[],
        metavar="TYPE:NAME",
        help="a principal that may renew and expire the token, besides the owner; can be repeated",
    )
    parser.add_argument(
        "--max-lifetime",
        type=duration,
        metavar="DURATION",
        help="how long it can be renewed, such as 7d (the brokers' maximum)",
    )
    parser.add_argument(
        "--hmac-file", metavar="FILE", help="write the HMAC to this new file instead of printing it"
    )


def _create(arguments: argparse.Namespace, output: Output) -> int:
    # The file is created first: a token whose HMAC cannot be written would be lost.
    file = None
    if arguments.hmac_file is not None:
        file = os.open(arguments.hmac_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with connection.connected_admin(arguments) as client:
            token = client.create_delegation_token(
                owner=arguments.owner, renewers=arguments.renewer, max_lifetime=arguments.max_lifetime
            )
        if file is not None:
            os.write(file, f"{token.password}\n".encode())
    except BaseException:
        if arguments.hmac_file is not None:
            os.unlink(arguments.hmac_file)
        raise
    finally:
        if file is not None:
            os.close(file)
    output.item({**_fields(token), **({"hmac": token.password} if file is None else {})})
    return 0


def _configure_list(parser: Parser) -> None:
    parser.add_argument(
        "owners", nargs="*", metavar="TYPE:NAME", help="only tokens of these owners, such as User:ann"
    )


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        tokens = client.describe_delegation_tokens(arguments.owners or None)
    columns = ["token_id", "owner", "requester", "renewers", "issue_time", "expiry_time", "max_time"]
    output.table(columns, [list(_fields(token).values()) for token in tokens], quiet=("renewers",))
    return 0


# ---------------------------------------------------------------------------------------------------
# renew, expire
# ---------------------------------------------------------------------------------------------------


def _configure_renew(parser: Parser) -> None:
    parser.add_argument("ids", nargs="+", metavar="TOKEN_ID", help="token ids, as list prints them")
    parser.add_argument(
        "--period", type=duration, metavar="DURATION", help="from now, such as 1d (the brokers' setting)"
    )


def _renew(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:

        def renew(hmac: bytes) -> int | None:
            return client.renew_delegation_token(hmac, period=arguments.period)

        return _change(client, arguments.ids, output, renew, "renewed")


def _configure_expire(parser: Parser) -> None:
    parser.add_argument("ids", nargs="+", metavar="TOKEN_ID", help="token ids, as list prints them")
    parser.add_argument("--after", type=duration, metavar="DURATION", help="from now, such as 1h (now)")
    add_yes(parser)


def _expire(arguments: argparse.Namespace, output: Output) -> int:
    question = f"Expire {counted(set(arguments.ids), 'token')}"
    if not is_confirmed(arguments, output, question, arguments.ids):
        return 1
    with connection.connected_admin(arguments) as client:

        def expire(hmac: bytes) -> int | None:
            return client.expire_delegation_token(hmac, after=arguments.after)

        return _change(client, arguments.ids, output, expire, "expired")


def _change(
    client: KafkaAdminClient,
    ids: list[str],
    output: Output,
    call: Callable[[bytes], int | None],
    done: str,
) -> int:
    """Call with the HMAC of each token. The brokers return it, so that no secret must be typed."""
    from pykafka2.admin import Outcomes

    hmacs = {token.token_id: token.hmac for token in client.describe_delegation_tokens()}

    def call_one(items: list[str]) -> Outcomes[str, int | None]:
        (token_id,) = items
        if token_id not in hmacs:
            missing = f"Token {token_id} does not exist, or you may not describe it."
            return Outcomes({}, {token_id: DelegationTokenNotFound(missing)})
        try:
            return Outcomes({token_id: call(hmacs[token_id])})
        except IllegalArgument:
            raise
        except KafkaError as error:
            return Outcomes({}, {token_id: error})

    return change(
        output,
        ids,
        call_one,
        done,
        lambda token_id: {"token_id": token_id},
        lambda time_ms: {} if time_ms is None else {"expiry_time": time_or_none(time_ms)},
        batch=1,
    )


ACTIONS = (
    Action(
        "create",
        "create a token and print it with its HMAC, a secret",
        _create,
        _configure_create,
        "Programs log in with sasl.delegation.token=true, the token id as sasl.username and the HMAC as\n"
        "sasl.password.\n\n"
        "  pykafka2 tokens create --max-lifetime 7d --hmac-file token.secret\n"
        "  pykafka2 tokens create --owner User:ann --renewer User:scheduler --json",
    ),
    Action(
        "list",
        "list tokens, without their HMACs",
        _list,
        _configure_list,
        "  pykafka2 tokens list\n  pykafka2 tokens list User:ann --json",
    ),
    Action(
        "renew",
        "renew tokens, at most until their max time",
        _renew,
        _configure_renew,
        "  pykafka2 tokens renew gB2TgDCaRyuXxLsnNjnkGg --period 1d",
    ),
    Action(
        "expire",
        "expire tokens, now or after a while",
        _expire,
        _configure_expire,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 tokens expire gB2TgDCaRyuXxLsnNjnkGg --after 1h",
    ),
)
