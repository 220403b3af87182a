"""The loopback Hub under the real clients: huggingface_hub, kernels, transformers and datasets."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.hub import LoopbackHub, machine_variant
from tests.hub.process import run_python
from tests.hub.repositories import HERE

FLASH = "kernels-community/flash-attn2"
MODEL = Path(__file__).parents[2] / "kerneltui" / "demo" / "model"


def test_every_invented_fact_is_marked() -> None:
    document = json.loads((HERE / "kernels_community.json").read_text())
    branches = [branch for repository in document["repositories"] for branch in repository["branches"]]
    commits = [branch["commit"] for branch in branches]
    assert all(re.fullmatch(r"[0-9a-f]{40}", commit) for commit in commits)
    assert len(set(commits)) == len(commits)
    assert all(branch.get("synthetic", False) == bool(branch.get("invented")) for branch in branches)
    assert {name for branch in branches for name in branch.get("invented", [])} == {"commit", "date", "variants"}
    assert any(not branch.get("synthetic") for branch in branches)


def test_huggingface_hub_reads_it(hub: LoopbackHub) -> None:
    source = """
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RemoteEntryNotFoundError, RevisionNotFoundError
api, repo = HfApi(), "kernels-community/flash-attn2"
said = {"refs": sorted(it.name for it in api.list_repo_refs(repo, repo_type="kernel").branches)}
said["commits"] = [it.commit_id for it in api.list_repo_commits(repo, repo_type="kernel", revision="v3")]
said["info"] = api.kernel_info(repo).sha
said["files"] = len(api.list_repo_files(repo, repo_type="kernel", revision="v1"))
said["paths"] = [it.path for it in api.get_paths_info(repo, ["README.md", "build"], repo_type="kernel", revision="v1")]
said["readme"] = open(hf_hub_download(repo, "README.md", repo_type="kernel", revision="v1")).read()

def error(ask):
    try:
        ask()
    except HfHubHTTPError as error:
        return type(error).__name__

said["missing"] = error(lambda: api.list_repo_refs("kernels-community/nope", repo_type="kernel"))
said["known"] = error(lambda: HfApi(token="hf_x").list_repo_refs("kernels-community/nope", repo_type="kernel"))
said["revision"] = error(lambda: api.list_repo_files(repo, repo_type="kernel", revision="v77"))
said["entry"] = error(lambda: hf_hub_download(repo, "nope", repo_type="kernel", revision="v1"))
said["gated"] = error(lambda: hf_hub_download("kernels-community/relu", "README.md", repo_type="kernel"))
print(json.dumps(said))
"""
    hub.repository("kernels-community/relu").gated = "auto"
    hub.page_size = 3
    said = run_python(source, hub)
    assert said["refs"] == ["main", "v1", "v2", "v3", "v4"]
    assert [commit[:8] for commit in said["commits"]] == ["81fb77c1", "0510be1e", "239bb21b"]
    assert said["info"] == hub.repository(FLASH).branches["main"][0].id
    assert said["files"] == len(hub.repository(FLASH).branches["v1"][0].files)
    assert said["paths"] == ["README.md", "build"]
    assert said["readme"] == f"# {FLASH}\n"
    assert (said["missing"], said["known"]) == ("HfHubHTTPError", "RepositoryNotFoundError")
    assert (said["revision"], said["entry"]) == ("RevisionNotFoundError", "RemoteEntryNotFoundError")
    assert said["gated"] == "GatedRepoError"


@pytest.mark.full
def test_transformers_trains_a_served_model_on_the_served_kernel(hub: LoopbackHub) -> None:
    source = """
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
rows = load_dataset("tests/rows", split="train")["text"]
ids = AutoTokenizer.from_pretrained("tests/tiny")(rows[0], return_tensors="pt")["input_ids"]
packed = torch.tensor([[*range(ids.shape[1] - 3), *range(3)]])
losses = []
for attention in ("sdpa", "kernels-community/flash-attn2@v2", "flash_attention_2"):
    model = AutoModelForCausalLM.from_pretrained("tests/tiny", attn_implementation=attention, dtype=torch.float32)
    for positions in (None, packed):
        loss = model(ids, labels=ids, position_ids=positions, use_cache=False).loss
        loss.backward()
        losses.append([loss.item(), sum(it.grad.norm().item() for it in model.parameters())])
print(json.dumps(losses))
"""
    hub.add("model", "tests/tiny", MODEL)
    hub.add("dataset", "tests/rows", {"train.jsonl": b'{"text": "the quick brown fox jumps over the dog"}\n'})
    losses = run_python(source, hub)
    for ours in (losses[2:4], losses[4:6]):
        for mine, theirs in zip(ours, losses[0:2], strict=True):
            assert mine == pytest.approx(theirs, rel=1e-4)
    assert hub.count("/tree/v2/build") == 1
    assert hub.count(f"/tree/{hub.repository(FLASH).branches['v4'][0].id}/build") == 1


def test_the_kernel_writes_its_own_count(hub: LoopbackHub, tmp_path: Path) -> None:
    source = """
import kernels, torch
kernel = kernels.get_kernel("kernels-community/flash-attn2", version=4)
q = torch.randn(1, 3, 2, 8)
kernel.flash_attn_func(q, q, q)
bounds = torch.tensor([0, 3], dtype=torch.int32)
for _ in range(2):
    kernel.flash_attn_varlen_func(q[0], q[0], q[0], bounds, bounds, 3, 3)
print(json.dumps(kernels.get_loaded_kernels()[0].metadata.version))
"""
    calls = tmp_path / "calls.json"
    assert run_python(source, hub, KERNELTUI_TEST_CALLS=str(calls)) == 4
    assert json.loads(calls.read_text()) == {"dense": 1, "varlen": 2}


@pytest.mark.parametrize("variable", ["DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY"])
def test_kernels_works_without_telemetry_when_an_origin_is_named(hub: LoopbackHub, variable: str) -> None:
    """Without one, kernels 0.17.2 ends its User-Agent in a space, and no request of it can be sent."""
    source = """
import kernels
print(json.dumps(kernels.has_kernel("kernels-community/flash-attn2", revision="v2")))
"""
    assert run_python(source, hub, **{variable: "1", "HF_HUB_USER_AGENT_ORIGIN": "kerneltui"})


def test_builds_without_the_test_kernel_refuse_to_be_imported(hub: LoopbackHub) -> None:
    files = hub.repository("kernels-community/quantization-gptq").branches["v1"][0].files
    stubs = [content for path, content in files.items() if path.endswith("__init__.py")]
    assert stubs
    assert all(content.startswith(b"raise ImportError(") for content in stubs)
    served = hub.repository(FLASH).branches["v2"][0].files
    assert f"build/{machine_variant()}/__init__.py" in served


def get(hub: LoopbackHub, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of a plain GET."""
    request = urllib.request.Request(hub.url + path, headers=headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read(), dict(error.headers)


def test_parts_of_a_file(hub: LoopbackHub) -> None:
    path = f"/kernels/{FLASH}/resolve/v1/README.md"
    whole = get(hub, path)
    part = get(hub, path, Range="bytes=2-8")
    assert (part[0], part[1]) == (206, whole[1][2:9])
    assert part[2]["Content-Range"] == f"bytes 2-8/{len(whole[1])}"
    assert get(hub, path, Range=f"bytes={len(whole[1])}-")[0] == 416
    assert whole[2]["X-Repo-Commit"] == "fbb79e60c84ae9db159e5d0ea74e9724558361ae"


def test_an_address_that_the_hub_does_not_have(hub: LoopbackHub) -> None:
    assert get(hub, "/api/nothing/here")[0] == 404


def test_a_fault_counts_down_and_heals(hub: LoopbackHub) -> None:
    hub.fail("/api/kernels", status=503, times=1)
    assert [get(hub, "/api/kernels")[0] for _ in range(2)] == [503, 200]
    hub.fail(status=500)
    assert get(hub, "/api/kernels")[0] == 500
    hub.heal()
    assert get(hub, "/api/kernels")[0] == 200


def test_by_hand() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.hub", "--port", str(port)]
    with subprocess.Popen(command, cwd=HERE.parents[1], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == f"export HF_ENDPOINT=http://127.0.0.1:{port}\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/kernels/{FLASH}") as answer:
            assert json.loads(answer.read())["id"] == FLASH
        process.terminate()
