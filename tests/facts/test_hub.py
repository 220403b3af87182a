"""The Hub client against the loopback Hub: what it returns and what it sends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kerneltui.errors import HubError, UsageError
from kerneltui.facts.hub import Hub
from kerneltui.facts.kernel_records import KernelRevision
from tests.hub import LoopbackHub, Repository
from tests.hub.repositories import make_commit

FLASH = "kernels-community/flash-attn2"
V2 = "db6b51744f0cd7061386442c09df890fc6d9f47e"
RELU = "kernels-community/relu"


@pytest.fixture
def client(hub: LoopbackHub) -> Hub:
    """Return a client of the loopback Hub."""
    return Hub(hub.url, timeout=30)


def test_list_kernels_follows_all_pages(hub: LoopbackHub, client: Hub) -> None:
    whole = client.list_kernels()
    hub.requests.clear()
    hub.page_size = 25
    assert client.list_kernels() == whole
    assert [request.partition("cursor=")[2] for request in hub.requests if "agent" not in request] == [
        "",
        "25",
        "50",
    ]
    assert len(whole) == 60
    flash = next(kernel for kernel in whole if kernel.id == FLASH)
    assert (flash.likes, flash.gated) == (8, False)
    assert flash.sha == hub.repository(FLASH).branches["main"][0].id


def test_list_kernels_needs_nothing_but_an_id(hub: LoopbackHub, client: Hub) -> None:
    hub.fail("/api/kernels", body=b'[{"id": "a/b"}, {"id": "c/d", "likes": "many", "gated": "manual", "new": {}}]')
    first, second = client.list_kernels("a")
    assert (first.id, first.likes, first.gated) == ("a/b", None, None)
    assert (second.likes, second.gated) == (None, "manual")


def test_revisions_are_version_branches_newest_first_then_others_then_tags(hub: LoopbackHub, client: Hub) -> None:
    repository = hub.repository(FLASH)
    repository.branches["v10"] = [make_commit({"a": b"1"})]
    repository.tags["v11"] = repository.branches["v2"][0]
    revisions = client.revisions(FLASH)
    assert [revision.name for revision in revisions] == ["v10", "v4", "v3", "v2", "v1", "main", "v11"]
    assert revisions[3] == KernelRevision(repository=FLASH, name="v2", commit=V2)
    assert revisions[-1] == KernelRevision(repository=FLASH, name="v11", commit=V2, kind="tag")


def test_dates_of_revisions_come_from_their_commits(client: Hub) -> None:
    dates = {revision.name: revision.date for revision in client.revisions(FLASH, dates=True)}
    assert dates["v2"] == "2026-07-15T00:00:00.000Z"
    assert dates["v1"] == "2026-06-18T00:00:00.000Z"


def test_commits_of_a_branch_newest_first(client: Hub) -> None:
    commits = client.commits(FLASH, "v3")
    assert [commit.commit[:8] for commit in commits] == ["81fb77c1", "0510be1e", "239bb21b"]
    assert {commit.kind for commit in commits} == {"commit"}


@pytest.mark.parametrize("revision", ["v2", "refs/heads/v2", V2])
def test_commit_of_a_branch_a_reference_and_a_commit(client: Hub, revision: str) -> None:
    assert client.commit_of(FLASH, revision) == V2


def test_variants_are_the_folders_under_build(hub: LoopbackHub, client: Hub) -> None:
    files = {
        "build/torch-cpu/metadata.json": b"{}",
        "build/README.md": b"",
        "torch-cuda/x.py": b"",
        "build/x/y/z": b"",
    }
    hub.add("kernel", "someone/odd", files)
    assert client.variants("someone/odd", "main") == ["torch-cpu", "x"]


def test_variants_of_a_commit_are_asked_for_once_those_of_a_branch_again(hub: LoopbackHub, client: Hub) -> None:
    by_commit = client.variants(FLASH, V2)
    assert client.variants(FLASH, V2) == by_commit
    assert client.variants(FLASH, "v2") == client.variants(FLASH, "v2") == by_commit
    assert (hub.count(f"tree/{V2}/"), hub.count("tree/v2/")) == (1, 2)


def test_variants_follow_all_pages(hub: LoopbackHub, client: Hub) -> None:
    hub.page_size = 10
    assert len(client.variants(FLASH, "v2")) >= 24
    assert hub.count("/tree/v2/build") >= 3


def test_metadata_is_the_file_itself(hub: LoopbackHub, client: Hub) -> None:
    content = client.metadata("kernels-community/flash-attn4", "v0", "torch-cuda")
    assert json.loads(content)["python-depends"] == ["einops", "tvm-ffi", "nvidia-cutlass-dsl"]


def test_trusted_publishers_are_what_the_hub_says(client: Hub) -> None:
    assert client.is_trusted("kernels-community")
    assert not client.is_trusted("MiniMaxAI")
    assert not client.is_trusted("somebody")


def test_many_builds_at_most_16_requests_at_once(hub: LoopbackHub, client: Hub) -> None:
    hub.fail("/api", delay=0.02)
    wanted = [(repository.id, name) for repository in hub.repositories.values() for name in repository.branches]
    seen = []
    builds = client.builds_side_by_side(wanted, on_each=lambda pair, found: seen.append(pair))
    assert list(builds) == wanted
    assert sorted(seen) == sorted(wanted)
    assert 1 < hub.most_at_once <= 16
    assert builds[FLASH, "v2"] == client.variants(FLASH, V2)
    bare = builds[RELU, "main"]
    assert isinstance(bare, HubError)
    assert bare.kind == "no_build"


def test_many_builds_stop_asking_a_hub_that_refuses(hub: LoopbackHub, client: Hub) -> None:
    wanted = [(repository.id, name) for repository in hub.repositories.values() for name in repository.branches]
    hub.fail("/api/kernels", status=429)
    builds = client.builds_side_by_side(wanted)
    assert {found.kind for found in builds.values() if isinstance(found, HubError)} == {"rate_limited"}
    assert len(builds) == len(wanted)
    assert hub.count("/tree/") <= 16


def test_many_builds_go_on_after_a_failure_of_one(hub: LoopbackHub, client: Hub) -> None:
    hub.fail(f"/api/kernels/{RELU}", status=503)
    builds = client.builds_side_by_side([(RELU, "v1"), (FLASH, "v2")])
    assert isinstance(builds[RELU, "v1"], HubError)
    assert builds[FLASH, "v2"] == client.variants(FLASH, "v2")


def test_a_token_reaches_private_repositories(hub: LoopbackHub, client: Hub) -> None:
    hub.repositories["kernel", "me/secret"] = Repository("kernel", "me/secret", private=True)
    hub.add("kernel", "me/secret", {"build/torch-cpu/metadata.json": b"{}"})
    with pytest.raises(HubError, match="There is no kernel repository me/secret"):
        client.variants("me/secret", "main")
    assert Hub(hub.url, token="hf_test").variants("me/secret", "main") == ["torch-cpu"]


def test_the_token_does_not_follow_to_another_address(hub: LoopbackHub) -> None:
    headers = {"Link": '<http://127.0.0.1:1/api/kernels?cursor=5>; rel="next"'}
    hub.fail("/api/kernels", status=200, headers=headers, body=b"[]")
    with pytest.raises(HubError) as caught:
        Hub(hub.url, token="hf_test").list_kernels()
    assert (caught.value.kind, caught.value.message) == (
        "garbage",
        "/api/kernels: the next page is at another address, http://127.0.0.1:1/api/kernels?cursor=5",
    )


def test_next_page_of_the_real_hub_is_taken_from_the_mirror(hub: LoopbackHub, client: Hub) -> None:
    headers = {"Link": '<https://huggingface.co/api/kernels?author=MiniMaxAI>; rel="next"'}
    hub.fail("/api/kernels", status=200, headers=headers, body=b'[{"id": "a/b"}]', times=1)
    assert [kernel.id for kernel in client.list_kernels("a")] == ["a/b", "MiniMaxAI/msa"]


@pytest.mark.parametrize("repo", ["relu", "a/b/c", "../etc", "kernels community/relu", ""])
def test_names_that_no_repository_can_have(hub: LoopbackHub, client: Hub, repo: str) -> None:
    with pytest.raises(UsageError) as caught:
        client.revisions(repo)
    assert caught.value.title == f"{repo!r} cannot be a kernel repository"
    assert hub.requests == []


def test_endpoint_is_huggingface_hubs_own_when_none_is_given() -> None:
    assert Hub().endpoint == "http://127.0.0.1:9"  # set in conftest


def test_a_plans_variables_name_another_hub_or_forbid_to_ask(hub: LoopbackHub) -> None:
    assert Hub.of({}, endpoint=hub.url).endpoint == hub.url
    assert Hub.of({"HF_ENDPOINT": hub.url}, endpoint="http://127.0.0.1:9").revisions(FLASH)
    asked = hub.count()
    with pytest.raises(HubError) as caught:
        Hub.of({"HF_HUB_OFFLINE": "1"}, endpoint=hub.url).revisions(FLASH)
    assert (caught.value.kind, hub.count()) == ("offline", asked)


def test_the_import_costs_no_huggingface_hub() -> None:
    code = "import kerneltui.facts.builds, sys; print('huggingface_hub' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
