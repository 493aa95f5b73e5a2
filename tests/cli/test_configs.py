"""`pykafka2 configs` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, in_terminal, pykafka2


def new_topic(admin: Admin, *settings: str) -> str:
    """Create a topic with these settings; return its name."""
    name = admin.name()
    words = [word for setting in settings for word in ("-c", setting)]
    assert admin("topics", "create", name, *words)[0] == 0
    return name


def test_describe_shows_changed_settings(admin: Admin) -> None:
    name = new_topic(admin, "retention.ms=5000")
    assert admin.rows("configs", "describe", "topic", name) == [
        {
            "type": "topic",
            "name": name,
            "setting": "retention.ms",
            "value": "5000",
            "source": "DYNAMIC_TOPIC_CONFIG",
            "config_type": "LONG",
            "read_only": False,
            "sensitive": False,
        }
    ]
    code, shown, _ = admin("configs", "describe", "topic", name)
    assert code == 0
    assert shown.splitlines()[0].split() == ["SETTING", "VALUE", "SOURCE"]
    _, shown, _ = admin("configs", "describe", "topic", name, new_topic(admin, "retention.ms=7000"))
    assert shown.splitlines()[0].split() == ["NAME", "SETTING", "VALUE", "SOURCE"]


def test_describe_all_has_the_defaults(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown, errors = admin("configs", "describe", "topic", name)
    assert (code, shown, errors) == (0, "", "Nothing is set; --all also shows the defaults.\n")
    settings = {row["setting"]: row for row in admin.rows("configs", "describe", "topic", name, "--all")}
    assert settings["retention.ms"]["source"] == "DEFAULT_CONFIG"


def test_setting_of_the_brokers_is_none_of_a_topic(admin: Admin) -> None:
    name = new_topic(admin)
    assert admin("configs", "set", "broker", "default", "log.retention.ms=60000")[0] == 0
    try:
        assert admin.rows("configs", "describe", "topic", name) == []
        (row,) = admin.rows("configs", "describe", "topic", name, "--setting", "retention.ms")
        assert (row["value"], row["source"]) == ("60000", "DYNAMIC_DEFAULT_BROKER_CONFIG")
        rows = admin.rows("configs", "describe", "broker", "default")
        assert [row["setting"] for row in rows] == ["log.retention.ms", "min.insync.replicas"]
    finally:
        admin("configs", "reset", "broker", "default", "--all")


def test_describe_one_setting_with_synonyms_and_documentation(admin: Admin) -> None:
    name = new_topic(admin, "retention.ms=5000")
    words = ("configs", "describe", "topic", name, "--setting", "retention.ms", "--synonyms", "--docs")
    (row,) = admin.rows(*words)
    assert row["synonyms"][0] == {
        "setting": "retention.ms",
        "value": "5000",
        "source": "DYNAMIC_TOPIC_CONFIG",
    }
    assert "documentation" in row
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in admin(*words)[1]


def test_unknown_setting_is_named_with_the_nearest(admin: Admin) -> None:
    name = new_topic(admin)
    code, _, errors = admin("configs", "describe", "topic", name, "--setting", "retention.mss")
    assert code == 1
    assert f"topic '{name}': there is no setting retention.mss; did you mean retention.ms?" in errors


@pytest.mark.gate
def test_missing_topic_is_one_line_and_the_others_are_shown(admin: Admin) -> None:
    name = new_topic(admin, "retention.ms=5000")
    code, shown, errors = admin("configs", "describe", "topic", name, "no-such-topic", "--json")
    assert (code, len(shown.splitlines())) == (1, 1)
    assert "topic 'no-such-topic': UnknownTopicOrPartition" in errors


@pytest.mark.gate
def test_set_append_subtract_and_reset(admin: Admin) -> None:
    name = new_topic(admin, "cleanup.policy=delete")
    code, shown, errors = admin("configs", "set", "topic", name, "retention.ms=5", "cleanup.policy+=compact")
    assert (code, errors) == (0, "")
    assert shown == f"topic '{name}': set, settings retention.ms, cleanup.policy\n"
    rows = admin.rows("configs", "describe", "topic", name)
    assert {row["setting"]: row["value"] for row in rows} == {
        "retention.ms": "5",
        "cleanup.policy": "delete,compact",
    }
    assert admin("configs", "set", "topic", name, "cleanup.policy-=delete")[0] == 0
    assert admin.rows("configs", "reset", "topic", name, "retention.ms") == [
        {"type": "topic", "name": name, "result": "reset", "error": None, "settings": ["retention.ms"]}
    ]
    rows = admin.rows("configs", "describe", "topic", name)
    assert {row["setting"]: row["value"] for row in rows} == {"cleanup.policy": "compact"}
    assert admin("configs", "reset", "topic", name, "--all")[0] == 0
    assert admin.rows("configs", "describe", "topic", name) == []


def test_dry_run_changes_nothing(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown, _ = admin("configs", "set", "topic", name, "retention.ms=5", "--dry-run")
    assert (code, shown) == (0, f"topic '{name}': valid, setting retention.ms\n")
    assert admin.rows("configs", "describe", "topic", name) == []
    code, _, errors = admin("configs", "set", "topic", name, "retention.ms=soon", "--dry-run")
    assert code == 1
    assert "InvalidConfig" in errors


def test_dry_run_resets_nothing(admin: Admin) -> None:
    name = new_topic(admin, "retention.ms=5000")
    for words in (["retention.ms"], ["--all"]):
        code, shown, _ = admin("configs", "reset", "topic", name, *words, "--dry-run")
        assert (code, shown) == (0, f"topic '{name}': valid, setting retention.ms\n")
    assert len(admin.rows("configs", "describe", "topic", name)) == 1


def test_static_settings_of_a_broker_are_shown_as_read_only(admin: Admin) -> None:
    rows = {row["setting"]: row for row in admin.rows("configs", "describe", "broker", "1")}
    assert rows["super.users"]["source"] == "STATIC_BROKER_CONFIG"
    assert rows["super.users"]["read_only"] is True


@pytest.mark.parametrize("kind", ["broker", "broker-logger"])
def test_missing_broker_fails_at_once_and_is_named_with_the_running_ones(admin: Admin, kind: str) -> None:
    for words in (["describe", kind, "77"], ["set", kind, "77", "a=b"], ["reset", kind, "77", "a"]):
        code, shown, errors = admin("configs", *words)
        assert (code, shown) == (1, "")
        assert "Broker 77 does not exist or is not running. Running brokers: 0, 1.\n" in errors
        assert errors.count("\n") == 1


def test_missing_broker_does_not_hide_the_settings_of_another(admin: Admin) -> None:
    code, shown, errors = admin("configs", "describe", "broker", "77", "1", "--json")
    assert code == 1
    assert {json.loads(line)["name"] for line in shown.splitlines()} == {"1"}
    assert errors.startswith("pykafka2 configs: broker '77': BrokerNotAvailable: ")


@pytest.mark.parametrize(
    ("resource", "setting"),
    [
        (["broker", "1"], "log.cleaner.threads=2"),
        (["broker", "default"], "log.cleaner.threads=2"),
        (["group", "billing"], "consumer.session.timeout.ms=50000"),
    ],
)
def test_set_and_reset_of_brokers_and_groups(admin: Admin, resource: list[str], setting: str) -> None:
    name, _, value = setting.partition("=")
    assert admin("configs", "set", *resource, setting)[0] == 0
    rows = admin.rows("configs", "describe", *resource, "--setting", name)
    assert [row["value"] for row in rows] == [value]
    assert admin("configs", "reset", *resource, name)[0] == 0


def test_list_has_the_resources_of_each_type(admin: Admin) -> None:
    name = new_topic(admin)
    rows = admin.rows("configs", "list")
    assert {"type": "topic", "name": name} in rows
    assert {"type": "broker", "name": "1"} in rows
    assert {row["type"] for row in admin.rows("configs", "list", "broker")} == {"broker"}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["describe", "topik", "orders"], "did you mean topic?"),
        (["describe", "broker", "one"], "a broker's id or default"),
        (["describe", "broker-logger", "default"], "'default' is not valid; use a broker's id\n"),
        (["set", "topic", "t", "retention.ms"], "retention.ms has no value"),
        (["set", "topic", "t", "=5"], "has no value"),
        (["set", "topic", "t", "a=1", "a+=2"], "setting a is changed twice"),
        (["set", "topic", "t"], "NAME=VALUE"),
        (["reset", "topic", "t"], "--all"),
        (["reset", "topic", "t", "a", "--all"], "--all"),
        (["list", "topics"], "use topic, broker"),
    ],
)
def test_wrong_argument_has_exit_code_2(admin: Admin, words: list[str], shown: str) -> None:
    code, out, errors = admin("configs", *words)
    assert (code, out) == (2, "")
    assert shown in errors


@pytest.mark.parametrize("text", ["ssl.keystore.password=hush", "ssl.keystore.password hush", "a+ hush"])
def test_secret_value_is_not_shown(admin: Admin, text: str) -> None:
    for words in (["configs", "set", "broker", "1", text], ["topics", "create", "t", "--setting", text]):
        code, shown, errors = admin(*words)
        assert code in (0, 1, 2)
        assert "hush" not in shown + errors


@pytest.mark.gate
def test_typed_in_a_pipe_and_in_a_terminal(admin: Admin) -> None:
    name = new_topic(admin, "retention.ms=5000")
    ended = pykafka2("configs", "describe", "topic", name, "-b", admin.servers, "--json")
    assert (ended.returncode, json.loads(ended.stdout)["value"]) == (0, "5000")
    code, shown = in_terminal("configs", "describe", "topic", name, "-b", admin.servers)
    assert code == 0
    assert "retention.ms" in shown


@pytest.mark.gate
def test_reset_of_all_settings_is_confirmed_in_a_terminal(admin: Admin) -> None:
    name = new_topic(admin, "retention.ms=5000")
    terminal = Terminal("configs", "reset", "topic", name, "--all", "-b", admin.servers)
    terminal.wait_for(f"Restore the defaults of 1 resource: topic '{name}'? [y/N]")
    terminal.type("n\n")
    assert terminal.end()[0] == 1
    assert len(admin.rows("configs", "describe", "topic", name)) == 1
