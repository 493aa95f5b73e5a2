"""Bearer tokens: the exchange, the cache that asks for new ones in time, and what providers may return."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from pykafka2.driver.thread_driver import MAX_OFFLOAD_THREADS
from pykafka2.errors import SaslAuthenticationFailed, TokenExpired, TokenProviderTimedOut
from pykafka2.network.sasl.oauth_token import (
    MAX_HANGING_CALLS,
    Token,
    TokenCache,
    TokenRequest,
    expiry_of,
    token_of,
)
from pykafka2.network.sasl.oauthbearer import GIVE_UP, OAuthBearer, first_message
from pykafka2.network.script import Offload
from pykafka2.text import type_of
from tests.web_tokens import unsigned


class Provider:
    """Tokens that live for 100 seconds, and the time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.calls = 0
        self.fails: Exception | None = None

    def __call__(self) -> Token:
        self.calls += 1
        if self.fails is not None:
            raise self.fails
        return Token(f"token-{self.calls}", self.now + 100)

    def cache(self) -> TokenCache:
        return TokenCache(self, lambda: self.now, "tester")


def jwt(**claims: Any) -> str:
    return unsigned("signature", **claims)


# ---------------------------------------------------------------------- the cache


def test_token_is_used_for_four_fifths_of_its_lifetime() -> None:
    provider = Provider()
    cache = provider.cache()
    assert cache.current().value == "token-1"
    provider.now += 79
    assert cache.current().value == "token-1"
    provider.now += 2
    assert cache.current().value == "token-2"


def test_token_of_unknown_lifetime_is_fetched_each_time() -> None:
    calls: list[int] = []

    def source() -> Token:
        calls.append(1)
        return Token("opaque")

    cache = TokenCache(source, lambda: 0.0, "tester")
    cache.current()
    cache.current()
    assert len(calls) == 2


def test_newer_token_with_an_earlier_expiry_is_kept() -> None:
    """A rejected token, as after a change of the authority's settings, or if the last one was revoked."""
    provider = Provider()
    lives = [100.0, 10.0]
    cache = TokenCache(
        lambda: Token(provider().value, provider.now + lives[min(provider.calls, 2) - 1]),
        lambda: provider.now,
        "tester",
    )
    assert cache.current().value == "token-1"
    provider.now += 81
    assert cache.current().value == "token-2"
    assert cache.current().value == "token-2"
    assert provider.calls == 2


def test_an_authority_that_fails_does_not_matter_while_the_last_token_is_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Provider()
    cache = provider.cache()
    cache.current()
    provider.fails = RuntimeError("secret-in-the-words")
    provider.now += 90
    with caplog.at_level(logging.WARNING):
        assert cache.current().value == "token-1"
    assert "the token provider raised RuntimeError" in caplog.text
    assert "secret-in-the-words" not in caplog.text
    provider.now += 10
    with pytest.raises(SaslAuthenticationFailed, match="the token provider raised RuntimeError"):
        cache.current()


@pytest.mark.parametrize("how", ["by a status", "by an error"])
def test_a_token_that_a_broker_refuses_is_not_used_for_the_rest_of_its_life(how: str) -> None:
    """It may have been revoked; but if the next one is refused, too, so would be a third one."""
    provider = Provider()
    mechanism = OAuthBearer(provider.cache())

    def refused() -> str:
        exchange: Any = mechanism.exchange()
        message = exchange.send(next(exchange).work())
        if how == "by a status":
            assert exchange.send(b'{"status":"invalid_token"}') == GIVE_UP
        with pytest.raises(SaslAuthenticationFailed):
            exchange.throw(SaslAuthenticationFailed("no"))
        return str(message.decode().split("\x01")[1])

    assert [refused(), refused(), refused()] == [f"auth=Bearer token-{number}" for number in (1, 2, 2)]
    provider.now += 9
    assert refused() == "auth=Bearer token-2"
    provider.now += 2
    assert [refused(), refused()] == ["auth=Bearer token-2", "auth=Bearer token-3"]
    assert provider.calls == 3


def test_rejection_of_an_earlier_token_does_not_drop_the_last_one() -> None:
    """A broker can respond to a slow connection after another one has fetched the next token."""
    provider = Provider()
    cache = provider.cache()
    earlier = cache.current()
    provider.now += 81
    assert cache.current().value == "token-2"
    cache.reject(earlier)
    assert cache.current().value == "token-2"


def test_rejected_token_is_dropped_after_the_clock_was_set_back() -> None:
    provider = Provider()
    cache = provider.cache()
    cache.reject(cache.current())
    second = cache.current()
    provider.now -= 500
    cache.reject(second)
    assert cache.current().value == "token-3"


def test_an_expired_token_is_not_sent() -> None:
    cache = TokenCache(lambda: Token("old", 990.0), lambda: 1000.0, "tester")
    with pytest.raises(TokenExpired, match="expired 10 s ago"):
        cache.current()


# ---------------------------------------------------------------------- sources that hang


class Hanging:
    """A source that answers when it is let; each call is on a thread of the test's."""

    def __init__(self) -> None:
        self.calls: list[threading.Event] = []
        self.called = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []
        self.tokens: list[Token] = []
        self.failing: set[int] = set()
        self.cache = TokenCache(self, lambda: 1000.0, "tester", 0.01, "the token provider oauth_cb")

    def __call__(self) -> Token:
        may_go_on = threading.Event()
        number = len(self.calls)
        self.calls.append(may_go_on)
        self.called.release()
        may_go_on.wait(60)
        if number in self.failing:
            raise RuntimeError
        return Token(f"token-{number}", 1100.0)

    def ask(self) -> None:
        with suppress(SaslAuthenticationFailed):
            self.tokens.append(self.cache.current())

    def start(self) -> None:
        """Begin a call that hangs."""
        thread = threading.Thread(target=self.ask)
        self.threads.append(thread)
        thread.start()
        assert self.called.acquire(timeout=30)

    def end(self) -> None:
        for one in self.calls:
            one.set()
        for thread in self.threads:
            thread.join(30)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.end()


def test_waiting_for_a_hanging_provider_raises_token_provider_timed_out(hanging: Hanging) -> None:
    hanging.start()
    with pytest.raises(TokenProviderTimedOut, match=r"oauth_cb returned no OAUTHBEARER token within 0.01 s$"):
        hanging.cache.current()
    assert len(hanging.calls) == 1, "one call at a time"


def test_provider_is_called_again_after_an_abandoned_call(hanging: Hanging) -> None:
    hanging.start()
    with pytest.raises(TokenProviderTimedOut):
        hanging.cache.give_up()
    hanging.start()
    hanging.calls[1].set()
    hanging.threads[1].join(30)
    assert [token.value for token in hanging.tokens] == ["token-1"]
    assert hanging.cache.current().value == "token-1"


def test_token_returned_after_a_later_one_changes_nothing(hanging: Hanging) -> None:
    for _ in range(2):
        hanging.start()
        with pytest.raises(TokenProviderTimedOut):
            hanging.cache.give_up()
    for number in (1, 0):
        hanging.calls[number].set()
        hanging.threads[number].join(30)
    assert [token.value for token in hanging.tokens] == ["token-1", "token-0"]
    assert hanging.cache.current().value == "token-1"


def test_few_calls_may_hang(hanging: Hanging) -> None:
    for _ in range(MAX_HANGING_CALLS):
        hanging.start()
        with pytest.raises(TokenProviderTimedOut):
            hanging.cache.give_up()
    with pytest.raises(TokenProviderTimedOut, match="; 3 calls of it still hang"):
        hanging.cache.current()
    assert len(hanging.calls) == MAX_HANGING_CALLS < MAX_OFFLOAD_THREADS
    hanging.calls[0].set()
    hanging.threads[0].join(30)
    assert hanging.cache.current().value == "token-0", "one that comes back late is taken"


def test_waiter_of_an_abandoned_call_does_not_call_beside_the_next(hanging: Hanging) -> None:
    waits = threading.Event()
    waiting = threading.Thread(target=hanging.ask)

    def clock() -> float:
        if threading.current_thread() is waiting:
            waits.set()  # it has seen whose turn it is
        return 1000.0

    hanging.cache = TokenCache(hanging, clock, "tester", 10.0)
    hanging.failing.add(0)
    hanging.start()
    hanging.threads.append(waiting)
    waiting.start()
    assert waits.wait(30)
    with pytest.raises(TokenProviderTimedOut):
        hanging.cache.give_up()
    hanging.start()
    hanging.calls[0].set()
    hanging.threads[0].join(30)
    assert not hanging.called.acquire(timeout=0.03), "one call at a time"
    hanging.calls[1].set()
    waiting.join(30)
    assert [token.value for token in hanging.tokens] == ["token-1"] * 2


def test_waiter_of_an_abandoned_call_that_is_cancelled_does_not_call_the_provider(hanging: Hanging) -> None:
    waits, request = threading.Event(), TokenRequest()

    def wait() -> None:
        with suppress(SaslAuthenticationFailed):
            hanging.cache.current(request)

    waiting = threading.Thread(target=wait)

    def clock() -> float:
        if threading.current_thread() is waiting:
            waits.set()  # it has seen whose turn it is
        return 1000.0

    hanging.cache = TokenCache(hanging, clock, "tester", 10.0)
    hanging.failing.add(0)
    hanging.start()
    hanging.threads.append(waiting)
    waiting.start()
    assert waits.wait(30)
    with pytest.raises(TokenProviderTimedOut):
        hanging.cache.give_up()
    request.is_over = True
    hanging.calls[0].set()
    hanging.threads[0].join(30)
    assert not hanging.called.acquire(timeout=0.1)
    waiting.join(30)


def test_while_the_last_token_is_good_a_source_may_hang(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider()
    cache = provider.cache()
    cache.current()
    provider.now += 90
    assert cache.give_up().value == "token-1"
    assert "the last one is used while it is valid" in caplog.text
    provider.now += 10
    with pytest.raises(TokenProviderTimedOut):
        cache.give_up()


@pytest.mark.parametrize("is_lost", [True, False], ids=["connection lost", "over time"])
def test_cancelled_or_timed_out_exchange_does_not_call_the_provider(is_lost: bool) -> None:
    """Or calls for connections that are gone would hold up those for others, where each takes its time."""
    provider = Provider()
    exchange = OAuthBearer(provider.cache()).exchange()
    step = next(exchange)
    assert isinstance(step, Offload)
    if is_lost:
        exchange.close()
    else:
        with pytest.raises(TokenProviderTimedOut):
            exchange.throw(TokenProviderTimedOut("over"))
    with pytest.raises(TokenProviderTimedOut):
        step.work()
    assert provider.calls == 0


def test_a_provider_that_ends_the_program_is_named() -> None:
    def source() -> Token:
        raise SystemExit

    with pytest.raises(SaslAuthenticationFailed, match="the token provider raised SystemExit"):
        TokenCache(source, lambda: 0.0, "tester").current()


# ---------------------------------------------------------------------- what providers return


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("opaque", Token("opaque", None, "", {"a": "b"})),
        (jwt(exp=1234), Token(jwt(exp=1234), 1234.0, "", {"a": "b"})),
        (("t", 5.0), Token("t", 5.0, "", {"a": "b"})),
        (("t", 5, "ann"), Token("t", 5.0, "ann", {"a": "b"})),
        (("t", 5, "ann", {"a": "c", "d": "e"}), Token("t", 5.0, "ann", {"a": "c", "d": "e"})),
        (Token("t", 5.0, "ann"), Token("t", 5.0, "ann", {"a": "b"})),
    ],
)
def test_supported_return_types_of_a_provider_become_tokens(returned: Any, expected: Token) -> None:
    assert token_of(returned, {"a": "b"}) == expected


@pytest.mark.parametrize("returned", [None, b"token", 7, ("t",), (None, 5), ()])
def test_anything_else_is_refused_by_its_type(returned: Any) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=f"returned {type_of(returned)};"):
        token_of(returned, {})


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (Token(7), "a value that is an? int"),  # type: ignore[arg-type]
        (Token(None), "a value that is a NoneType"),  # type: ignore[arg-type]
        (Token("t", 5.0, "", {"a": 7}), "an extension that is an? int"),  # type: ignore[dict-item]
        (("t", 5, "ann", {7: "a"}), "an extension that is an? int"),
        (Token("t", "soon"), "an expiry that is a str"),  # type: ignore[arg-type]
        (Token("t", float("nan")), "an expiry that is nan or too large"),
        (("t", float("nan")), "an expiry that is nan or too large"),
        (("t", None), "an expiry that is a NoneType"),
        (("t", 10**400), "an expiry that is nan or too large"),
    ],
    ids=str,
)
def test_token_with_a_part_of_the_wrong_type_is_refused(returned: Any, words: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=f"the token provider returned {words}"):
        token_of(returned, {})


@pytest.mark.parametrize(
    "value",
    [
        jwt(exp=float("nan")),
        "a.b",
        "a.b.c",
        "a.bm90IGpzb24.c",
        jwt(exp="never"),
        jwt(exp=10**400),
        jwt(sub="ann"),
        "",
    ],
)
def test_opaque_token_has_no_expiry(value: str) -> None:
    assert expiry_of(value) is None


# ---------------------------------------------------------------------- the exchange


def exchange_of(token: Token) -> Any:
    exchange = OAuthBearer(TokenCache(lambda: token, lambda: 0.0, "tester")).exchange()
    step = next(exchange)
    assert isinstance(step, Offload), "the provider may block: another thread calls it"
    return exchange, lambda: exchange.send(step.work())


def test_token_is_sent_in_one_message_with_its_extensions() -> None:
    exchange, go_on = exchange_of(Token("abc", None, "", {"logicalCluster": "lkc-1"}))
    assert go_on() == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"
    with pytest.raises(StopIteration):
        exchange.send(b"")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b'{"status":"invalid_token"}', "'invalid_token'"),
        (b'{"other":1}', "no reason given"),
        (b"[1]", "no reason given"),
        (b"\xff", "no reason given"),
        (b"[" * 100_000, "no reason given"),
        (b'{"status":"' + b"x" * 5000 + b'"}', "'x{200}'"),
    ],
)
def test_rejected_token_ends_the_exchange_and_raises_the_reason(answer: bytes, words: str) -> None:
    exchange, go_on = exchange_of(Token("abc"))
    go_on()
    assert exchange.send(answer) == GIVE_UP
    with pytest.raises(SaslAuthenticationFailed, match=f"rejected the OAUTHBEARER token: .*{words}"):
        exchange.send(b"")


@pytest.mark.parametrize(
    "token",
    [
        Token(""),
        Token("a b"),
        Token("a\x01auth=Bearer other"),
        Token("a", None, "", {"auth": "x"}),
        Token("a", None, "", {"a1": "x"}),
        Token("a", None, "", {"a": "x\x01y"}),
        Token("a", None, "", {"a": ""}),
    ],
    ids=str,
)
def test_token_with_control_characters_is_not_sent(token: Token) -> None:
    with pytest.raises(SaslAuthenticationFailed) as refused:
        first_message(token)
    assert "other" not in str(refused.value)


def test_a_token_is_in_no_repr() -> None:
    hidden: list[Callable[[], object]] = [lambda: Token("abc"), lambda: OAuthBearer(Provider().cache())]
    for make in hidden:
        assert "abc" not in repr(make())
