"""The viewer: a page in the browser that turns, slices, steps through and probes a solution.

It is served on this machine only, at a port that is free, and asks nothing of any other machine.
"""

from __future__ import annotations

import json
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tessella.machine.interrupts import at_safe_points
from tessella.solution.export import Sampled
from tessella.solution.report import finite
from tessella.solution.viewed import Viewed

HOME = "127.0.0.1"
FOLDER = Path(__file__).parent / "viewer_page"
FILES = {
    "/": ("viewer.html", "text/html; charset=utf-8"),
    "/viewer.css": ("viewer.css", "text/css; charset=utf-8"),
    "/viewer.js": ("viewer.js", "text/javascript; charset=utf-8"),
    "/surface.js": ("surface.js", "text/javascript; charset=utf-8"),
    "/colours.js": ("colours.js", "text/javascript; charset=utf-8"),
}
POLICY = "default-src 'self'; img-src 'self' data:"


class Viewer:
    """A solution that is being shown at `url` until it is closed."""

    def __init__(self, solution: Sampled, browser: bool = True) -> None:
        self._server = _Server(Viewed(solution))
        self.url = f"http://{HOME}:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        if browser:
            webbrowser.open(self.url)

    def wait(self) -> None:
        """Show it until Ctrl-C, which ends it without a complaint."""
        with at_safe_points() as interrupts:
            try:
                threading.Event().wait()
            except KeyboardInterrupt:
                interrupts.seen = None
            finally:
                self.close()

    def close(self) -> None:
        """Stop showing it."""
        self._server.shutdown()
        self._server.server_close()

    def __repr__(self) -> str:
        return f"<Viewer at {self.url}>"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, viewed: Viewed) -> None:
        super().__init__((HOME, 0), _Answers)
        self.viewed = viewed
        self.asked = threading.Lock()


class _Answers(BaseHTTPRequestHandler):
    """Files of the page, and what it asks about the solution."""

    server: _Server

    def do_GET(self) -> None:
        """Answer whoever found the address by its number; a page of another site that has led a
        browser here by another name is refused."""
        url = urlsplit(self.path)
        asked = {key: values[-1] for key, values in parse_qs(url.query).items()}
        if self.headers.get("Host") not in self._names():
            self._send(HTTPStatus.FORBIDDEN, b"served to this machine only", "text/plain")
        elif url.path in FILES:
            name, kind = FILES[url.path]
            self._send(HTTPStatus.OK, (FOLDER / name).read_bytes(), kind)
        elif url.path in ("/about", "/drawn", "/probed"):
            self._send_json(url.path[1:], asked)
        else:
            self._send(HTTPStatus.NOT_FOUND, b"nothing here", "text/plain")

    def _names(self) -> tuple[str, str]:
        return f"{HOME}:{self.server.server_port}", f"localhost:{self.server.server_port}"

    def _send_json(self, what: str, asked: dict[str, str]) -> None:
        try:
            with self.server.asked:
                found = _answer(self.server.viewed, what, asked)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            self._send(HTTPStatus.BAD_REQUEST, str(error).encode(), "text/plain; charset=utf-8")
            return
        self._send(HTTPStatus.OK, json.dumps(finite(found)).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


def _answer(viewed: Viewed, what: str, asked: dict[str, str]) -> dict[str, Any]:
    if what == "about":
        return viewed.about()
    if what == "probed":
        return viewed.probed(json.loads(asked["point"]))
    axes = [int(axis) for axis in json.loads(asked["axes"])]
    at = {int(axis): float(place) for axis, place in json.loads(asked["at"]).items()}
    if len(axes) not in (1, 2) or len({*axes}) != len(axes):
        raise ValueError(f"axes must be one or two different numbers, got {axes}")
    return viewed.drawn(axes, at, asked["field"], asked["layer"])
