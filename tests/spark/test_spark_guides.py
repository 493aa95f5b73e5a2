"""The code of Spark's guides runs as printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_connector import testing
from tests.docs.test_code_blocks import BLOCK, DOCUMENTS, ROOT, code_of, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDES = [one for one in DOCUMENTS if needs_spark(one) and BLOCK.search(one.read_text(encoding="utf-8"))]


@pytest.mark.long
@pytest.mark.parametrize("document", GUIDES, ids=lambda one: str(one.relative_to(ROOT)))
def test_the_code_runs(
    document: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(testing, "local_session", spark.newSession)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # others need it after this
    exec(compile(code_of(document), str(document), "exec"), {"__name__": "documentation"})
