"""The Hub's API: one function for each endpoint, from a request to an answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from tests.hub.repositories import Commit, Repository, backend_of

if TYPE_CHECKING:
    from tests.hub.server import LoopbackHub


@dataclass
class Request:
    """A request; `path` is still quoted, `query` maps a name to all its values."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    hub: LoopbackHub

    def first(self, name: str, default: str) -> str:
        """Return the first value of a query parameter."""
        return self.query.get(name, [default])[0]


@dataclass
class Answer:
    """A status, headers without Content-Length, and a body."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class _RefusedError(Exception):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer


def answer(request: Request) -> Answer:
    """Return what the Hub answers to `request`."""
    for pattern, endpoint in _ENDPOINTS:
        if match := re.fullmatch(pattern, request.path):
            found = {name: unquote(value) for name, value in match.groupdict(default="").items()}
            try:
                return _unless_known(request, endpoint(request, **found))
            except _RefusedError as refused:
                return refused.answer
    return _error(404, "Sorry, we can't find the page you are looking for.")


def _unless_known(request: Request, made: Answer) -> Answer:
    """Answer 304 where the client has the same JSON already."""
    if made.status != 200 or "json" not in made.headers.get("Content-Type", ""):
        return made
    tag = f'W/"{hashlib.sha1(made.body).hexdigest()}"'
    made.headers["ETag"] = tag
    return Answer(304, {"ETag": tag}) if request.headers.get("If-None-Match") == tag else made


def _json(value: Any, **headers: str) -> Answer:
    return Answer(200, {"Content-Type": "application/json; charset=utf-8", **headers}, json.dumps(value).encode())


def _error(status: int, message: str, code: str | None = None) -> Answer:
    headers = {"Content-Type": "application/json; charset=utf-8", "X-Error-Message": message}
    if code:
        headers["X-Error-Code"] = code
    return Answer(status, headers, json.dumps({"error": message}).encode())


def _page(request: Request, items: list[Any]) -> Answer:
    """Answer with one page of `items`; the next one is named in a Link header."""
    limit = min(int(request.first("limit", "1000")), request.hub.page_size)
    start = int(request.first("cursor", "0"))
    page = items[start : start + limit]
    if start + limit >= len(items):
        return _json(page)
    query = urlencode({**request.query, "cursor": start + limit}, doseq=True)
    return _json(page, Link=f'<{request.hub.url}{request.path}?{query}>; rel="next"')


def _repository(request: Request, type: str, id: str) -> Repository:
    """Return the repository; a missing or private one is a 401 to an anonymous client."""
    found = request.hub.repositories.get((_TYPES[type], id))
    known = "Authorization" in request.headers or "authorization" in request.headers
    if found and (known or not found.private):
        return found
    refusal = (
        _error(404, "Repository not found", "RepoNotFound") if known else _error(401, "Invalid username or password.")
    )
    raise _RefusedError(refusal)


def _commit(repository: Repository, revision: str) -> Commit:
    found = repository.find(revision)
    if found is None:
        raise _RefusedError(_error(404, f"Invalid rev id: {revision}", "RevisionNotFound"))
    return found


def _agent_harnesses(request: Request) -> Answer:
    return _json({"standardEnvVars": [], "harnesses": {}})


def _telemetry(request: Request) -> Answer:
    return Answer(200)


def _whoami(request: Request) -> Answer:
    """Return whom the token belongs to (`LoopbackHub.users`); one that is not known is refused as the Hub does it."""
    given = request.headers.get("Authorization") or request.headers.get("authorization") or ""
    if not given:
        return _error(401, "Invalid username or password.")
    user = request.hub.users.get(given.removeprefix("Bearer "))
    if user is None:
        return _error(401, "Invalid credentials in Authorization header")
    return _json({"type": "user", "name": user, "auth": {"type": "access_token"}})


def _overview(request: Request, organization: str) -> Answer:
    trusted = request.hub.organizations.get(organization)
    if trusted is None:
        return _error(404, "This organization does not exist")
    overview: dict[str, Any] = {
        "name": organization,
        "fullname": organization,
        "avatarUrl": f"{request.hub.url}/a.png",
    }
    return _json(overview | ({"trustedKernelPublisher": True} if trusted else {}))


def _listing(request: Request, type: str) -> Answer:
    author = request.first("author", "")
    full = request.first("full", "false").lower() == "true"
    found = [
        _item(repository, full=full)
        for (kind, id), repository in request.hub.repositories.items()
        if kind == _TYPES[type] and not repository.private and id.startswith(f"{author}/" if author else "")
    ]
    return _page(request, found)


def _item(repository: Repository, *, full: bool, commit: Commit | None = None) -> dict[str, Any]:
    commit = commit or next(iter(repository.branches.get("main") or next(iter(repository.branches.values()))))
    item: dict[str, Any] = {
        "_id": hashlib.sha1(repository.id.encode()).hexdigest()[:24],
        "id": repository.id,
        "author": repository.id.partition("/")[0],
        "sha": commit.id,
        "createdAt": "2026-01-01T00:00:00.000Z",
        "lastModified": f"{commit.date}T00:00:00.000Z",
        "downloads": repository.downloads,
        "likes": repository.likes,
        "private": repository.private,
        "gated": repository.gated,
        "disabled": False,
        "isLikedByUser": False,
        "tags": [],
    }
    if repository.type == "kernel":
        folders = {path.split("/")[1] for path in commit.files if path.startswith("build/")}
        item |= {"repoType": "kernel", "supportedDriverFamilies": sorted(map(backend_of, folders))}
        return item | ({"files": sorted(commit.files)} if full else {})
    return item | {"siblings": [{"rfilename": path} for path in sorted(commit.files)]}


def _info(request: Request, type: str, id: str, revision: str = "main") -> Answer:
    repository = _repository(request, type, id)
    return _json(_item(repository, full=False, commit=_commit(repository, revision)))


def _refs(request: Request, type: str, id: str) -> Answer:
    repository = _repository(request, type, id)
    heads = {name: history[0].id for name, history in repository.branches.items()}
    tags = {name: commit.id for name, commit in repository.tags.items()}
    return _json(
        {
            "branches": [{"name": n, "ref": f"refs/heads/{n}", "targetCommit": c} for n, c in heads.items()],
            "converts": [],
            "tags": [{"name": n, "ref": f"refs/tags/{n}", "targetCommit": c} for n, c in tags.items()],
        }
    )


def _commits(request: Request, type: str, id: str, revision: str) -> Answer:
    repository = _repository(request, type, id)
    _commit(repository, revision)
    made = [
        {
            "id": commit.id,
            "title": commit.title,
            "message": "",
            "date": f"{commit.date}T00:00:00.000Z",
            "authors": [{"user": "kernels-bot", "avatar": ""}],
        }
        for commit in repository.history(revision)
    ]
    return _page(request, made)


def _tree(request: Request, type: str, id: str, revision: str, path: str = "") -> Answer:
    commit = _commit(_repository(request, type, id), revision)
    entries = _entries(commit, path, recursive=request.first("recursive", "false").lower() == "true")
    if not entries:
        return _error(404, f'{path} does not exist on "{revision}"', "EntryNotFound")
    return _page(request, entries)


def _entries(commit: Commit, path: str, *, recursive: bool) -> list[dict[str, Any]]:
    folder = f"{path}/" if path else ""
    entries: dict[str, dict[str, Any]] = {}
    for name, content in sorted(commit.files.items()):
        if not name.startswith(folder):
            continue
        parts = name.removeprefix(folder).split("/")
        for depth in range(1, len(parts) if recursive else min(2, len(parts))):
            directory = folder + "/".join(parts[:depth])
            entries.setdefault(
                directory,
                {"type": "directory", "path": directory, "oid": _oid(directory.encode()), "size": 0},
            )
        if recursive or len(parts) == 1:
            entries[name] = {"type": "file", "path": name, "oid": _oid(content), "size": len(content)}
    return list(entries.values())


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _paths_info(request: Request, type: str, id: str, revision: str) -> Answer:
    commit = _commit(_repository(request, type, id), revision)
    text = request.body.decode()
    wanted = json.loads(text)["paths"] if text.startswith("{") else parse_qs(text).get("paths", [])
    known = {entry["path"]: entry for entry in _entries(commit, "", recursive=True)}
    return _json([known[path] for path in wanted if path in known])


def _resolve(request: Request, id: str, revision: str, path: str, type: str = "") -> Answer:
    repository = _repository(request, type or "models", id)
    commit = _commit(repository, revision)
    if repository.gated:
        return _error(403, f"Access to {id} is restricted.", "GatedRepo")
    content = commit.files.get(path)
    if content is None:
        refusal = _error(404, "Entry not found", "EntryNotFound")
        refusal.headers["X-Repo-Commit"] = commit.id
        return refusal
    headers = {
        "Content-Type": "application/octet-stream",
        "ETag": f'"{_oid(content)}"',
        "X-Repo-Commit": commit.id,
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"inline; filename*=UTF-8''{quote(path.rpartition('/')[2])}",
    }
    return _ranged(request, content, headers)


def _ranged(request: Request, content: bytes, headers: dict[str, str]) -> Answer:
    given = request.headers.get("Range") or request.headers.get("range") or ""
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", given)
    if not asked:
        return Answer(200, headers, content)
    first, last = int(asked[1]), min(int(asked[2] or len(content) - 1), len(content) - 1)
    if first >= len(content):
        return Answer(416, {**headers, "Content-Range": f"bytes */{len(content)}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
    return Answer(206, headers, content[first : last + 1])


_TYPES = {"kernels": "kernel", "models": "model", "datasets": "dataset"}
_API = r"/api/(?P<type>kernels|models|datasets)"
_ID = r"/(?P<id>[^/]+/[^/]+)"
_REVISION = r"/(?P<revision>[^/]+)"
_ENDPOINTS: list[tuple[str, Callable[..., Answer]]] = [
    (r"/api/agent-harnesses", _agent_harnesses),
    (r"/api/telemetry/.*", _telemetry),
    (r"/api/whoami-v2", _whoami),
    (r"/api/organizations/(?P<organization>[^/]+)/overview", _overview),
    (_API, _listing),
    (_API + _ID, _info),
    (_API + _ID + "/revision" + _REVISION, _info),
    (_API + _ID + "/refs", _refs),
    (_API + _ID + "/commits" + _REVISION, _commits),
    (_API + _ID + "/tree" + _REVISION + r"(?:/(?P<path>.+))?", _tree),
    (_API + _ID + "/paths-info" + _REVISION, _paths_info),
    (r"(?:/(?P<type>kernels|datasets))?" + _ID + "/resolve" + _REVISION + r"/(?P<path>.+)", _resolve),
]
