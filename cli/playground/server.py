"""The playground over HTTP: for one user on this machine.

The server listens on 127.0.0.1 alone. Every path begins with a random key, the headers Host and Origin must be those of the
server, and requests that change anything must be JSON: another site in the same browser can neither guess the key nor send such
requests.
Bodies have at most a megabyte; constraints are built within :class:`~tractile.constraints.Limits`.
"""

from __future__ import annotations

import inspect
import json
import re
import secrets
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ...errors import FormatError, TractileError
from .session import Session

PAGE = Path(__file__).resolve().parent / "page.html"
MOST_BYTES = 1_000_000  # of a request's body
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'"


class PlaygroundServer(ThreadingHTTPServer):
    """A server of the page and of one :class:`Session`, whose calls are serialised; ``port`` 0 takes a free one."""

    daemon_threads = True

    def __init__(self, session: Session, port: int = 0) -> None:
        self.session, self.key, self.lock = session, secrets.token_urlsafe(16), threading.Lock()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        """The address of the page, with the key."""
        return f"http://127.0.0.1:{self.server_port}/{self.key}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of an unexpected error; ignore a connection that the browser has closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """The handler of a request: GET sends the page, or at ``run`` the last SMC run; POST calls a method of the session."""

    server: PlaygroundServer
    timeout = 60  # seconds for which a connection may be silent
    server_version, sys_version = "tractile", ""

    def do_GET(self) -> None:
        """Send the page, or the page of the last SMC run."""
        name = self._name()
        if name == "":
            self._send(200, "text/html", PAGE.read_bytes())
        elif name == "run" and (posterior := self.server.session.posterior) is not None:
            self._send(200, "text/html", posterior.to_html().encode())
        else:
            self._refuse(404, "there is no such page")

    def do_POST(self) -> None:
        """Call the session with the JSON fields of the body; send JSON, or status 400 and the error if it is refused."""
        session = self.server.session
        calls: dict[str | None, Callable[..., dict[str, Any]]] = {
            "open": session.open,
            "view": session.view,
            "explain": session.explain,
            "draw": session.draw,
            "particles": session.particles,
        }
        name = self._name()
        if name not in calls:
            self._refuse(404, "there is no such request")
            return
        try:
            given = arguments(calls[name], self._body())
            with self.server.lock:
                found = calls[name](*given.args, **given.kwargs)
        except TractileError as error:
            self._refuse(400, str(error))
        else:
            self._send(200, "application/json", json.dumps(found, allow_nan=False).encode())

    def _name(self) -> str | None:
        """Return the path after the key; None if the key, the header Host or an Origin is wrong."""
        _, key, *rest = (*self.path.split("?")[0].split("/", 2), "")
        own = [f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")]
        origins = self.headers.get_all(
            "Origin", []
        )  # browsers name the page that asks; other programs send none
        ours = self.headers.get("Host") in own and all(
            origin.removeprefix("http://") in own for origin in origins
        )
        if not ours or not secrets.compare_digest(key.encode(), self.server.key.encode()):
            return None
        return rest[0]

    def _body(self) -> dict[str, Any]:
        """Read the JSON object in the body of a request. Raises :class:`FormatError`."""
        if self.headers.get_content_type() != "application/json":
            raise FormatError("the body of a request is application/json")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MOST_BYTES:
            self.close_connection = True
            raise FormatError(f"the body of a request has at most {MOST_BYTES:,} bytes, and says how many")
        try:
            asked = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise FormatError(f"the body of the request is not JSON: {error}") from error
        if not isinstance(asked, dict):
            raise FormatError("the body of a request is an object")
        return asked

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, "application/json", json.dumps({"error": message}).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(data)),
            "Content-Security-Policy": POLICY,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cache-Control": "no-store",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def arguments(call: Callable[..., Any], asked: dict[str, Any]) -> inspect.BoundArguments:
    """Bind the fields of a request to the arguments of a method. Raises :class:`FormatError`."""
    try:
        return inspect.signature(call).bind(**asked)
    except TypeError as error:
        raise FormatError(f"the fields of the request: {error}") from error
