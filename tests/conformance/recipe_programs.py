"""The recipes whose libraries the project does not install: FastAPI (with httpx2), and kafkajs for Node.

    python -m tests.conformance.recipe_programs [fastapi | node]

All Python of docs/guides/recipes.md runs where FastAPI is, so that its block is not passed over, and the
block of JavaScript under `node --test`.  pip and npm install the pinned versions into the cache folder.  Exit
status 1 if anything failed.  A minute; not part of the gate.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from .maven import cache_folder
from .suites import run

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "guides" / "recipes.md"
JAVASCRIPT = re.compile(r"^```js\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FASTAPI = ("fastapi==0.165.0", "httpx2==2.16.2")
KAFKAJS = "kafkajs@2.2.4"
INSTALL_TIMEOUT = 300.0
RUN_TIMEOUT = 120.0
# The guide's code as tests/docs/test_code_blocks.py runs it; the check of the app's type needs FastAPI.
PROGRAM = """
import sys
from pathlib import Path
from fastapi import FastAPI
from tests.docs.test_code_blocks import code_of

names = {"__name__": "documentation"}
path = Path(sys.argv[1])
exec(compile(code_of(path), str(path), "exec"), names)
assert isinstance(names["orders_app"]("localhost:1"), FastAPI)
print("all recipes in Python ran")
"""


def main(arguments: list[str]) -> int:
    programs = {"fastapi": _with_fastapi, "node": _with_node}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", nargs="?", choices=list(programs))
    chosen = parser.parse_args(arguments).program
    succeeded = [succeeds() for name, succeeds in programs.items() if chosen in (None, name)]
    print(f"{sum(succeeded)} passed, {succeeded.count(False)} failed")
    return 0 if all(succeeded) else 1


def _with_fastapi() -> bool:
    folder = cache_folder() / f"recipes-{'-'.join(FASTAPI)}"
    if not (folder / "fastapi").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *FASTAPI]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT)
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    output = run([sys.executable, "-c", PROGRAM, str(RECIPES)], folder, environment, RUN_TIMEOUT)
    return _report(FASTAPI[0], output.rstrip().endswith("all recipes in Python ran"), output)


def _with_node() -> bool:
    folder = cache_folder() / f"recipes-{KAFKAJS}"
    if not (folder / "node_modules").exists():
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text("{}")
        command = ["npm", "install", "--silent", KAFKAJS]
        subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_TIMEOUT)
    (program,) = JAVASCRIPT.findall(RECIPES.read_text(encoding="utf-8"))
    (folder / "orders.test.js").write_text(program)
    # `pykafka2` as this environment has it.
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": search, "PYTHONPATH": str(ROOT)}
    output = run(["node", "--test", "orders.test.js"], folder, environment, RUN_TIMEOUT)
    return _report(KAFKAJS, "# pass 2" in output and "# fail 0" in output, output)


def _report(what: str, is_good: bool, output: str) -> bool:
    print(f"ok      {what}" if is_good else f"FAILED  {what}\n{output}", flush=True)
    return is_good


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
