"""`spark_connector.testing`: what it says where something is missing; nothing here starts Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_connector import testing

WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
from spark_connector.testing import local_session, why_no_spark
assert not hasattr(sys.modules["spark_connector.testing"], "spark_kafka")
"""


@pytest.mark.gate
@pytest.mark.slow
def test_a_session_can_be_made_where_there_is_no_pytest() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], check=True, timeout=60)


@pytest.fixture
def _has_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "find_spec", lambda name: object())


@pytest.mark.usefixtures("_has_pyspark")
def test_missing_java_is_reported_and_a_found_one_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "which has no bin/java. Set it to a JRE 17" in str(testing.why_no_spark())
    java.parent.mkdir()
    java.touch(mode=0o755)
    assert testing.why_no_spark() is None
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert testing.why_no_spark() == "Java was not found. Install a JRE 17 or later, or set JAVA_HOME."
    monkeypatch.setenv("PATH", str(java.parent))
    assert testing.why_no_spark() is None


def test_missing_pyspark_raises_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "find_spec", lambda name: None)
    with pytest.raises(testing.SparkUnavailable, match="pip install 'pykafka2"):
        testing.local_session()
