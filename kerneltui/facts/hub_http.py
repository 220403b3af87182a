"""Asking the Hub's HTTP API within bounds.

Endpoint, token, proxies and offline mode are huggingface_hub's; the retries are not. huggingface_hub retries
a server error for about 23 s, and after a 429 sleeps as long as the server says: too long for a person at a
screen.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin

import msgspec

import kerneltui
from kerneltui.errors import HubError
from kerneltui.facts.hub_budget import Budget, seconds_to_wait
from kerneltui.facts.hub_errors import (
    Reply,
    Subject,
    garbage,
    not_asked,
    offline,
    rate_limited,
    refusal,
    unreachable,
    unsendable_token,
)
from kerneltui.facts.hub_store import Kept, ReplyStore, key_of

MAX_REQUESTS = 16
_MAX_BYTES = 64 * 1024 * 1024
_MAX_PAGES = 1000
_RETRY_WAIT = 0.5
_PAGE = list[dict[str, Any]]


def utils() -> Any:
    """Return huggingface_hub.utils; the import takes a fifth of a second, so it waits until it is needed."""
    import huggingface_hub.utils

    return huggingface_hub.utils


def _http_library() -> Any:
    """Return the HTTP library that huggingface_hub uses: httpx2, or httpx before its version 2."""
    return sys.modules[type(utils().get_session()).__module__.partition(".")[0]]


class HubHttp:
    """GET requests to one endpoint, from any thread, at most MAX_REQUESTS at a time.

    `timeout` is in seconds: to connect, for each read, and for a whole answer. A dropped connection and a 5xx
    are tried once more after half a second. After a 429 nothing is sent until the Hub takes requests again: an error
    says how long that is. Answers are kept in `store`. `endpoint` and `token` are huggingface_hub's own where they are
    None; `offline` asks nothing, as its offline mode does.
    """

    def __init__(
        self,
        endpoint: str | None,
        token: str | None,
        timeout: float,
        store: ReplyStore | None = None,
        *,
        offline: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._offline = offline
        self._token = token
        self._timeout = timeout
        self.store = store or ReplyStore()
        self.budget = Budget()
        self._slots = threading.BoundedSemaphore(MAX_REQUESTS)
        self._headers_lock = threading.Lock()
        self._keys: dict[str, threading.Lock] = {}
        self._keys_lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        """The Hub's address, without a slash at its end."""
        from huggingface_hub import constants

        return (self._endpoint or constants.ENDPOINT).rstrip("/")

    def get(
        self,
        path: str,
        subject: Subject,
        params: Mapping[str, Any] | None = None,
        *,
        kind: Any = Any,
        keep: float = 0,
        ask: bool = True,
    ) -> Reply:
        """Return the answer to a GET of `path`, or of a whole URL of this endpoint. Raises HubError.

        An answer that is at most `keep` seconds old is not asked for again; an older one is where its ETag has changed.
        With `ask` False nobody is asked, and what was not kept raises HubError (not_asked). What is not JSON of type
        `kind` is not kept: a login page may answer in the Hub's place.
        """
        url = path if path.startswith(self.endpoint) else self.endpoint + path
        key = key_of(self.endpoint, url.removeprefix(self.endpoint), params, self._identity()) if keep else ""
        with self._one_at_a_time(key):
            kept = self.store.get(key) if keep else None
            if kept and (time.time() - kept.time <= keep or not ask):
                reply = kept.reply
            elif not ask:
                raise not_asked()
            else:
                reply = self._ask(url, params, kept)
                if keep and _can_be_kept(reply, kind):
                    self.store.put(key, reply)
        if reply.status >= 400:
            raise refusal(reply, subject, self.endpoint)
        return reply

    def pages(
        self, path: str, subject: Subject, params: Mapping[str, Any], *, keep: float = 0, ask: bool = True
    ) -> Iterator[list[dict[str, Any]]]:
        """Return the lists that a paged endpoint answers with, page after page; see `get`."""
        reply = self.get(path, subject, params, kind=_PAGE, keep=keep, ask=ask)
        for _ in range(_MAX_PAGES):
            yield self.decode(reply, _PAGE)
            if not reply.next_page:
                return
            reply = self.get(self._own(reply), subject, kind=_PAGE, keep=keep, ask=ask)
        raise self.garbage(reply, f"more than {_MAX_PAGES} pages")

    def decode(self, reply: Reply, kind: Any) -> Any:
        """Return the body as JSON of type `kind`. Raises HubError (garbage)."""
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except msgspec.DecodeError as error:  # a ValidationError is one too
            raise self.garbage(reply, str(error)) from error

    def garbage(self, reply: Reply, why: str) -> HubError:
        """Return the error for an answer that the Hub's API does not give."""
        return garbage(self.endpoint, reply.url, why)

    def _own(self, reply: Reply) -> str:
        """Return the next page's URL; the token goes to no other address than the endpoint."""
        url: str = utils().fix_hf_endpoint_in_url(urljoin(reply.url, reply.next_page), self.endpoint)
        if not url.startswith(self.endpoint + "/"):
            raise self.garbage(reply, f"the next page is at another address, {url}")
        return url

    @contextlib.contextmanager
    def _one_at_a_time(self, key: str) -> Iterator[None]:
        """Let one thread ask for what is kept; the others wait for its answer."""
        with self._keys_lock:
            lock = self._keys.setdefault(key, threading.Lock()) if key else threading.Lock()
        with lock:
            yield

    def _identity(self) -> str | None:
        """Return the token that the Hub would see, None without one."""
        from huggingface_hub import get_token

        return self._token if self._token is not None else get_token()

    def _ask(self, url: str, params: Mapping[str, Any] | None, kept: Kept | None) -> Reply:
        """Return the Hub's answer, or the kept one where the Hub says that it still holds."""
        if self._offline:
            raise offline()
        etag = kept.etag if kept else None
        reply = self._attempt(url, params, etag, last=False) or self._attempt(url, params, etag, last=True)
        assert reply
        self.budget.note(reply)
        if reply.status == 429:
            raise rate_limited(self.endpoint, seconds_to_wait(reply))
        return kept.reply if kept and reply.status == 304 else reply

    def _attempt(self, url: str, params: Mapping[str, Any] | None, etag: str | None, *, last: bool) -> Reply | None:
        """Return the answer, or None when it is worth another attempt and this is not the last."""
        from huggingface_hub.errors import OfflineModeIsEnabled

        http = _http_library()
        reply: Reply | None = None
        try:
            with self._slots:
                if seconds := self.budget.wait():
                    raise rate_limited(self.endpoint, max(1, seconds))
                reply = self._request(url, params, etag)
        except OfflineModeIsEnabled as error:
            raise offline() from error
        except (http.ReadError, http.WriteError, http.RemoteProtocolError) as error:
            if last:
                raise unreachable(self.endpoint, "the connection ended before the whole answer was there") from error
        except http.TimeoutException as error:
            raise unreachable(self.endpoint, f"no answer within {self._timeout:g} s") from error
        except http.DecodingError as error:
            raise garbage(self.endpoint, url, str(error)) from error
        except (http.LocalProtocolError, UnicodeEncodeError):
            raise unsendable_token() from None  # their text shows the token
        except (http.HTTPError, http.InvalidURL) as error:
            raise unreachable(self.endpoint, str(error) or type(error).__name__) from error
        if reply and (last or reply.status < 500):
            return reply
        time.sleep(_RETRY_WAIT)
        return None

    def _request(self, url: str, params: Mapping[str, Any] | None, etag: str | None) -> Reply:
        deadline = time.monotonic() + self._timeout
        headers = {**self._headers(), **({"If-None-Match": etag} if etag else {})}
        body = bytearray()
        options = {"params": params, "headers": headers, "timeout": self._timeout}
        with utils().get_session().stream("GET", url, **options) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if time.monotonic() > deadline:
                    raise unreachable(self.endpoint, f"no whole answer within {self._timeout:g} s")
                if len(body) > _MAX_BYTES:
                    raise garbage(self.endpoint, url, f"more than {_MAX_BYTES} bytes")
            next_page = response.links.get("next", {}).get("url")
            return Reply(url, response.status_code, dict(response.headers), bytes(body), next_page)

    def _headers(self) -> dict[str, str]:
        """Return token and user agent; the first time huggingface_hub may ask the Hub about agents for it."""
        with self._headers_lock:
            headers: dict[str, str] = utils().build_hf_headers(
                token=self._token, library_name="kerneltui", library_version=kerneltui.__version__
            )
        return headers


def _can_be_kept(reply: Reply, kind: Any) -> bool:
    """Whether an answer is the Hub's own: JSON of the expected type, or its word that there is no such folder."""
    if reply.status != 200:
        return reply.headers.get("x-error-code") == "EntryNotFound"
    try:
        msgspec.json.decode(reply.body, type=kind)
    except msgspec.DecodeError:
        return False
    return True
