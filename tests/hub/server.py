"""The loopback Hub's HTTP side: connections, the log of requests, faults."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.hub import api
from tests.hub.repositories import Files, Repository, kernel_repositories, make_commit, organizations

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@dataclass
class Fault:
    """What goes wrong with requests whose path starts with `prefix`; `times` None means always.

    `delay` is in seconds before the answer; `cut` sends half of the body and hangs up; `body` is sent in
    place of the right one; `drip` is a pause in seconds after each byte of it; `status` is sent in place of
    an answer, with `headers`; `extra` headers go with the right answer.
    """

    prefix: str = "/"
    status: int | None = None
    headers: Mapping[str, str] | None = None
    extra: Mapping[str, str] | None = None
    body: bytes | None = None
    delay: float = 0.0
    drip: float = 0.0
    cut: bool = False
    times: int | None = None


class LoopbackHub:
    """A Hub on 127.0.0.1 with all repositories of `kernels_community.json`; a context manager.

    `requests` holds "METHOD path?query" of every request in order. `most_at_once` tells how many there were
    at the same time; `on_answer` gets the status of each answer. `users` maps tokens to those whom they belong
    to. `page_size` is the most items that a list answers with. `home` is where `environment` puts HF_HOME.
    """

    def __init__(self, home: Path, port: int = 0) -> None:
        self.home = home
        self.page_size = 1000
        self.requests: list[str] = []
        self.on_answer: Callable[[int], None] = lambda status: None
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self.faults: list[Fault] = []
        self.organizations = organizations()
        self.users: dict[str, str] = {}
        self.repositories = {(repository.type, repository.id): repository for repository in kernel_repositories()}
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.hub = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> LoopbackHub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The endpoint, without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Stop answering; from then on connections are refused."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def environment(self) -> dict[str, str]:
        """Return variables that make all Hugging Face libraries in a new process use this Hub alone."""
        cache = str(self.home / "hub")
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(self.home),
            "HF_HUB_CACHE": cache,
            "KERNELS_CACHE": cache,
            "HF_TOKEN": "",
            "HF_HUB_OFFLINE": "",
            "TRANSFORMERS_OFFLINE": "",
            # With telemetry off kernels 0.17.2 makes a User-Agent that cannot be sent: no request succeeds.
            **dict.fromkeys(("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK"), ""),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            **dict.fromkeys(_PROXIES, ""),
        }

    def count(self, text: str = "") -> int:
        """Return how many requests so far have `text` in them."""
        return sum(text in request for request in self.requests)

    def fail(self, prefix: str = "/", **fault: Any) -> None:
        """Switch a fault on (see `Fault`)."""
        self.faults.append(Fault(prefix, **fault))

    def heal(self) -> None:
        """Switch all faults off."""
        self.faults.clear()

    def repository(self, repository: str, type: str = "kernel") -> Repository:
        """Return a repository that is there, to look at or to change."""
        return self.repositories[type, repository]

    def add(self, type: str, repository: str, files: Files | Path, *, branch: str = "main") -> Repository:
        """Put a commit with `files` (or those of a folder) on a branch of a repository, which may be new."""
        if isinstance(files, Path):
            files = {str(path.relative_to(files)): path.read_bytes() for path in files.rglob("*") if path.is_file()}
        found = self.repositories.setdefault((type, repository), Repository(type, repository))
        found.branches.setdefault(branch, []).insert(0, make_commit(files))
        return found

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the requests that are being answered at the same time."""
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield
        finally:
            with self._lock:
                self._at_once -= 1

    def take_fault(self, path: str) -> Fault | None:
        """Return the fault that hits a request of `path`, and count it."""
        for fault in self.faults:
            if path.startswith(fault.prefix) and fault.times != 0:
                if fault.times:
                    fault.times -= 1
                return fault
        return None


class _Server(http.server.ThreadingHTTPServer):
    hub: LoopbackHub
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that hang up are part of the tests."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep standard error clean; `LoopbackHub.requests` is the log."""

    def _serve(self) -> None:
        with self.server.hub.counted():
            self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hub = self.server.hub
        hub.requests.append(f"{self.command} {self.path}")
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        request = api.Request(self.command, path, query, dict(self.headers), body, hub)
        fault = hub.take_fault(path) or Fault()
        if fault.body is not None or fault.cut:  # an answer that has changed
            request.headers.pop("If-None-Match", None)
        time.sleep(fault.delay)
        if fault.status:
            self._send(_fault_answer(fault), fault)
        else:
            self._send(api.answer(request), fault)

    def _send(self, answer: api.Answer, fault: Fault) -> None:
        self.server.hub.on_answer(answer.status)
        body = answer.body if fault.body is None else fault.body
        self.send_response_only(answer.status)
        for name, value in {**answer.headers, **(fault.extra or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        if fault.cut:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self._write(body[: len(body) // 2] if fault.cut else body, fault.drip)
        if fault.cut:
            self.wfile.flush()
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _write(self, body: bytes, drip: float) -> None:
        if not drip:
            self.wfile.write(body)
            return
        for number in body:
            self.wfile.write(bytes([number]))
            time.sleep(drip)


def _fault_answer(fault: Fault) -> api.Answer:
    assert fault.status
    body = json.dumps({"error": HTTPStatus(fault.status).phrase}).encode()
    return api.Answer(fault.status, {"Content-Type": "application/json", **(fault.headers or {})}, body)
