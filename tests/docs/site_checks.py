"""Builds the site, follows its links without a network, and measures its pages in headless Chromium."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DEADLINE = 60.0
"""Seconds for one page; an idle machine measures ten in a second."""

BUILD = """
import gc
gc.set_threshold(1_000_000)  # the syntax trees of the package stay, so each collection would walk them again
from mkdocs.__main__ import cli
cli()
"""

MEASURE = """<!doctype html>
<title>measure</title>
<style>iframe { border: 0; height: 900px }</style>
<script>
let found = [];
const report = () => fetch("/measured", { method: "POST", body: JSON.stringify(found) });
const load = (frame, page) => new Promise((done) => { frame.onload = done; frame.src = page; });
const laidOut = (frame) => new Promise((done) => {
  const view = frame.contentWindow;
  view.requestAnimationFrame(() => view.requestAnimationFrame(done));
});

function measure(page, width, view) {
  const add = (problem) => found.push(`${page} at ${width} px: ${problem}`);
  for (const code of view.document.querySelectorAll("pre > code")) {
    if (code.scrollWidth <= code.clientWidth) continue;
    const scrolls = ["auto", "scroll"].includes(view.getComputedStyle(code).overflowX);
    const line = code.innerText.trim().split("\\n")[0];
    if (width > 1000) add(`code is cut (${code.scrollWidth} > ${code.clientWidth}): ${line}`);
    else if (!scrolls) add(`code is cut without a scroll bar: ${line}`);
  }
  const content = view.document.querySelector("article") ?? view.document.querySelector("main");
  const right = content ? content.getBoundingClientRect().left + content.scrollWidth : 0;
  const end = view.document.documentElement.clientWidth;
  if (width < 1000 && right > end) add(`the page is cut (${right} > ${end})`);
}

window.onload = async () => {
  try {
    const frame = document.body.appendChild(document.createElement("iframe"));
    frame.sandbox = "allow-same-origin";  // without the theme's scripts, which take most of the time
    for (const page of PAGES) {
      await load(frame, page);
      for (const width of [1400, 400]) {
        frame.style.width = `${width}px`;
        await laidOut(frame);
        measure(page, width, frame.contentWindow);
      }
      await report();
      found = [];
    }
  } catch (error) {
    found.push(`measuring failed: ${error}`);
    report();
  }
};
</script>
<body></body>
"""


def build(folder: Path) -> str:
    """Build the site with --strict; return what MkDocs printed if it failed."""
    command = [sys.executable, "-c", BUILD, "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    return "" if done.returncode == 0 else done.stdout + done.stderr


class _Page(HTMLParser):
    """The anchors and links of a page, and the addresses of what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(values.get("href", ""))
        elif "src" in values:
            self.loads.append(values["src"])


def broken_links(site: Path) -> list[str]:
    """Return the links and files that lead nowhere, and what is loaded from another host."""
    page_at = cache(lambda path: _Page(path.read_text(encoding="utf-8")))
    problems = []
    for path in sorted(site.rglob("*.html")):
        page, name = page_at(path), path.relative_to(site)
        problems += [f"{name} loads {one}" for one in page.loads if urlsplit(one).netloc]
        for address in [*page.links, *page.loads]:
            link = urlsplit(address)
            if link.scheme or link.netloc:
                continue
            target = _file_of(site, path, unquote(link.path))
            if not target.is_file():
                problems.append(f"{name}: no page {address}")
            elif link.fragment and target.suffix == ".html":
                is_there = unquote(link.fragment) in page_at(target).anchors
                problems += [] if is_there else [f"{name}: no anchor {address}"]
    return problems


def _file_of(site: Path, page: Path, path: str) -> Path:
    if not path:
        return page
    target = Path(normpath(site / path.lstrip("/") if path.startswith("/") else page.parent / path))
    return target / "index.html" if target.is_dir() else target


def browser() -> str | None:
    """Return the path of Chromium, if there is one."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


class _Handler(SimpleHTTPRequestHandler):
    """Serves a site and the page that measures it, and receives the measurements."""

    server: _Server

    def do_GET(self) -> None:
        if self.path != "/measure":
            super().do_GET()
            return
        body = MEASURE.replace("PAGES", json.dumps(self.server.pages)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.measured.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, site: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(site)))
        self.pages = [f"/{path.relative_to(site).as_posix()}" for path in sorted(site.rglob("*.html"))]
        self.measured: queue.Queue[list[str]] = queue.Queue()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore connections that the browser closes before it has the whole file."""


@contextmanager
def _serving(site: Path) -> Iterator[_Server]:
    with _Server(site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def layout_problems(site: Path, chromium: str, profile: Path) -> list[str]:
    """Return code blocks that are cut, and pages that scroll sideways, at 1,400 px and at 400 px.

    One run of the browser shows every page in a frame of either width. Scripts are off; they change no width.
    """
    with _serving(site) as server:
        address = f"http://127.0.0.1:{server.server_port}/measure"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        # With a port for debugging the browser stays open until it is terminated.
        options += ["--remote-debugging-port=0", f"--user-data-dir={profile}"]
        with (profile.parent / "chromium.log").open("wb") as log:
            running = subprocess.Popen([chromium, *options, address], stdout=log, stderr=log)
        found: list[str] = []
        try:
            for page in server.pages:
                try:
                    found += server.measured.get(timeout=DEADLINE)
                except queue.Empty:
                    return [*found, f"{page}: Chromium did not measure it within {DEADLINE:.0f} s"]
        finally:
            running.terminate()
            running.wait(20)
        return found
