"""Situations that people reported, with the right answer, each with its harmless neighbour."""

from __future__ import annotations

from tests.advice.situations import (
    A100,
    B200,
    COMMUNITY,
    GQA,
    H200,
    MHA,
    OTHER_COMMIT,
    T4,
    V3_FIXED,
    V3_OLD,
    V100,
    blocks,
    changes,
    findings,
    make_build,
    make_server,
)

FLASH2 = f"{COMMUNITY}/flash-attn2"
V3_128 = make_build("v3", "torch-stable-abi210-cu128-x86_64-linux", commit=OTHER_COMMIT)
CU128 = make_server(H200, cuda="12.8")


def test_g1_grouped_heads_with_v3_on_cuda_12_8_block_and_offer_v2() -> None:
    v2 = make_build("v2", "torch211-cxx11-cu128-x86_64-linux")
    v4 = make_build("v4", "torch-stable-abi210-cu128-x86_64-linux", commit="4" * 40)
    found = findings(
        server=CU128, given={"attn_implementation": f"{FLASH2}@v3"}, build=V3_128, alternatives=(v4, V3_128, v2)
    )
    finding = found["backward.grouped_heads"]
    assert finding.severity == "block"
    assert "14 query heads on 2 key/value heads" in finding.title
    # v4 is newer, but nobody has said that it works.
    assert changes(finding) == [
        {"attn_implementation": f"{FLASH2}@v2"},
        {"attn_implementation": f"{FLASH2}@v4"},
        {"attn_implementation": "sdpa"},
    ]


def test_g1_without_asking_for_others_v2_is_offered_where_it_was_published() -> None:
    asked = {"attn_implementation": f"{FLASH2}@v3"}
    found = findings(server=CU128, given=asked, build=V3_128)["backward.grouped_heads"]
    assert changes(found) == [{"attn_implementation": f"{FLASH2}@v2"}, {"attn_implementation": "sdpa"}]
    newer = make_server(H200, torch="2.13.0", cuda="12.8")  # v2 has cu128 for torch 2.11 alone
    found = findings(server=newer, given=asked, build=V3_128)["backward.grouped_heads"]
    assert changes(found) == [{"attn_implementation": "sdpa"}]


def test_g1_torchs_cuda_decides_where_the_hub_was_not_asked() -> None:
    asked = {"attn_implementation": f"{FLASH2}@v3"}
    assert "backward.grouped_heads" in blocks(server=CU128, given=asked)
    assert "backward.grouped_heads" not in findings(server=make_server(H200), given=asked)


def test_g1_harmless_neighbours() -> None:
    asked = {"attn_implementation": f"{FLASH2}@v3"}
    assert blocks(server=CU128, model=MHA, given=asked, build=V3_128) == set()
    v2 = make_build("v2", "torch211-cxx11-cu128-x86_64-linux")
    assert not findings(server=CU128, given={"attn_implementation": f"{FLASH2}@v2"}, build=v2)
    local = make_build("v3", "torch-cuda", commit="local", source="local")
    assert blocks(server=CU128, given=asked, build=local) == set()


def test_g1_ends_where_it_ended() -> None:
    variant = "torch-stable-abi210-cu130-x86_64-linux"
    for revision, commit, expected in [
        (V3_FIXED, V3_FIXED, {}),
        ("v3", OTHER_COMMIT, {}),
        (V3_OLD, V3_OLD, {"backward.grouped_heads": "block"}),
        (OTHER_COMMIT, OTHER_COMMIT, {"backward.unproven": "warn"}),
    ]:
        build = make_build(revision, variant, commit=commit, version=3)
        found = findings(given={"attn_implementation": f"{FLASH2}@{revision}"}, build=build)
        assert {name: finding.severity for name, finding in found.items()} == expected


def test_g1_v4_is_unproven_for_grouped_heads_alone() -> None:
    v4 = make_build("v4", "torch-stable-abi210-cu130-x86_64-linux", commit="4" * 40)
    asked = {"attn_implementation": f"{FLASH2}@v4"}
    found = findings(given=asked, build=v4)
    assert {name: finding.severity for name, finding in found.items()} == {"backward.unproven": "note"}
    assert not findings(model=MHA, given=asked, build=v4)


def test_g2_flash_attention_2_is_a_kernel_of_the_hub() -> None:
    finding = findings(given={"attn_implementation": "flash_attention_2"}, model=MHA)["attention.stand_in"]
    assert (finding.severity, finding.title) == (
        "note",
        "flash_attention_2 will really be kernels-community/flash-attn2, branch v4",
    )
    older = findings(server=make_server(H200, torch="2.9.1"), given={"attn_implementation": "flash_attention_2"})
    assert older["attention.stand_in"].title.endswith("branch v3")


def test_g2_with_its_package_installed_it_is_what_it_says() -> None:
    server = make_server(H200, flash=("flash_attention_2",))
    assert not findings(server=server, given={"attn_implementation": "flash_attention_2"})


def test_g3_a_revision_without_a_build_names_every_variant_and_the_revisions_that_fit() -> None:
    refused = {
        "torch210-cxx11-cu128-x86_64-linux": "Torch version (2.10) does not match environment Torch version (2.11)",
        "torch210-cxx11-cu130-x86_64-linux": "Torch version (2.10) does not match environment Torch version (2.11)",
        "torch212-cxx11-cpu-aarch64-linux": "CPU (aarch64) does not match system CPU (x86_64)",
    }
    build = make_build("v1", None, refused=refused)
    asked = {"attn_implementation": f"{FLASH2}@v1"}
    v3 = make_build("v3", "torch-stable-abi210-cu130-x86_64-linux", commit=OTHER_COMMIT)
    broken = make_build("v5", "torch-stable-abi210-cu130-x86_64-linux", commit="5" * 40, error="missing field `name`")
    finding = findings(given=asked, build=build, alternatives=(broken, v3, make_build()))["variants.none"]
    assert finding.severity == "block"
    assert finding.title == f"{FLASH2}@v1 has no build for torch 2.11.0+cu130 on x86_64"
    for variant, reason in refused.items():
        assert variant in finding.why
        assert reason in finding.why
    assert changes(finding) == [
        {"attn_implementation": f"{FLASH2}@v3"},
        {"attn_implementation": f"{FLASH2}@v2"},
        {"attn_implementation": "sdpa"},
    ]


def test_case_1_torch_2_13_has_no_v1_and_is_offered_v3_to_which_the_grouped_rule_applies() -> None:
    server = make_server(H200, torch="2.13.0", cuda="12.8")
    reason = "Torch version (2.12) does not match environment Torch version (2.13)"
    build = make_build("v1", None, refused={"torch212-cxx11-cu126-x86_64-linux": reason})
    v3 = make_build("v3", "torch-stable-abi210-cu128-x86_64-linux", commit=OTHER_COMMIT)
    asked = {"attn_implementation": f"{FLASH2}@v1"}
    grouped = findings(server=server, given=asked, build=build, alternatives=(v3,))["variants.none"]
    assert changes(grouped) == [{"attn_implementation": "sdpa"}]
    single = findings(server=server, model=MHA, given=asked, build=build, alternatives=(v3,))["variants.none"]
    assert changes(single)[0] == {"attn_implementation": f"{FLASH2}@v3"}


def test_case_3_a_build_that_resolves_but_has_no_code_for_the_card() -> None:
    name, variant = f"{COMMUNITY}/flash-attn3", "torch212-cxx11-cu130-x86_64-linux"
    build = make_build("v1", variant, repository=name, archs=("8.0", "9.0a"))
    asked = {"attn_implementation": f"{COMMUNITY}/flash-attn3@v1"}
    assert blocks(server=make_server(H200, torch="2.12.0"), given=asked, build=build) == set()
    assert blocks(server=make_server(A100, torch="2.12.0"), given=asked, build=build) == set()
    reason = "CUDA capability 10.0 of the current device is not supported"
    told = make_build("v1", variant, repository=name, arch_error=reason)
    finding = findings(server=make_server(B200, torch="2.12.0"), given=asked, build=told)["variants.architecture"]
    assert (finding.severity, finding.origin) == ("block", "asked")
    assert "CUDA capability 10.0 of the current device" in finding.why


def test_case_7_a_pair_that_does_not_go_together() -> None:
    server = make_server(H200, transformers="5.24.0")
    finding = findings(server=server, given={"attn_implementation": f"{FLASH2}@v2"})["packages.kernels"]
    assert finding.severity == "block"
    assert "transformers 5.24.0 does not accept kernels 0.17.2" in finding.title
    assert ">=0.18.2,<0.19.0" in finding.why
    assert [fix.command for fix in finding.fixes] == [
        "/opt/train/bin/python -m pip install 'transformers[kernels]'",
        "/opt/train/bin/python -m pip install 'kernels>=0.18.2,<0.19.0'",
        None,
    ]


def test_case_7_blocks_what_needs_a_kernel_only() -> None:
    server = make_server(H200, transformers="5.24.0")
    assert findings(server=server)["packages.kernels"].severity == "note"
    assert not findings(server=make_server(H200))
    native = findings(server=server, given={"attn_implementation": "flash_attention_2"})
    assert {name for name, finding in native.items() if finding.severity == "block"} == {"packages.flash_attention"}
    assert "packages.kernels" not in native
    layers = findings(server=server, given={"model_init_kwargs": {"use_kernels": True}})
    assert layers["packages.kernels"].severity == "block"


def test_case_40_older_cards_have_neither_flash_attention_nor_bfloat16() -> None:
    build = make_build(archs=("8.0", "9.0"), arch_error="CUDA capability 7.5 is not supported")
    for card in (T4, V100):
        server = make_server(card, archs=("sm_70", "sm_75", "sm_80"))
        for asked in ("flash_attention_2", f"{FLASH2}@v2"):
            found = findings(server=server, model=MHA, given={"attn_implementation": asked}, build=build)
            blocking = {name for name, finding in found.items() if finding.severity == "block"}
            assert blocking == {"device.flash", "dtype.bf16"}
            assert changes(found["device.flash"]) == [{"attn_implementation": "sdpa"}]
            assert changes(found["dtype.bf16"]) == [{"fp16": True}]
        assert not findings(server=server, given={"attn_implementation": "sdpa", "fp16": True})
    assert not findings(server=make_server(A100), given={"attn_implementation": f"{FLASH2}@v2"}, build=make_build())


def test_case_27_padding_free_cannot_hold_a_length() -> None:
    finding = findings(given={"padding_free": True})["packing.length_not_enforced"]
    assert finding.severity == "block"
    assert changes(finding)[:2] == [{"packing": True}, {"max_length": None}]
    assert finding.fixes[1].nulls == ("max_length",)
    assert not findings(given={"padding_free": True, "packing": True})
    assert not findings(given={"padding_free": True, "max_length": None})
    assert not findings("kto", given={"max_length": 1024})


def test_case_87_the_nearest_legal_values() -> None:
    message = "generation_batch_size (2) must be divisible by num_generations (8)."
    given = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 1, "num_generations": 8}
    found = findings("grpo", given=given, errors=(message,))
    assert [finding.severity for finding in found.values()] == ["block"]
    finding = found["configuration.ValueError"]
    assert (finding.origin, finding.title) == ("asked", message)
    assert changes(finding) == [
        {"gradient_accumulation_steps": 4},
        {"per_device_train_batch_size": 8},
        {"num_generations": 2},
    ]
    assert not findings("grpo", given={**given, "gradient_accumulation_steps": 4})


def test_g4_joined_samples_with_sdpa_by_release() -> None:
    old, middle, new = (make_server(H200, trl=version) for version in ("1.10.0", "1.13.0", "1.16.0"))
    for given in ({"packing": True}, {"padding_free": True, "max_length": None}):
        assert findings(server=old, given=given)["packing.not_flash"].severity == "warn"
        assert findings(server=middle, given=given)["packing.not_flash"].severity == "warn"
        assert not findings(server=new, given=given)
        pinned = {**given, "attn_implementation": f"{FLASH2}@v2"}
        alarm = findings(server=old, given=pinned, build=make_build())["packing.false_alarm"]
        assert alarm.severity == "note"
        assert not findings(server=middle, given=pinned, build=make_build())
        unpinned = {**given, "attn_implementation": FLASH2}
        assert "packing.false_alarm" not in findings(server=old, given=unpinned, model=MHA)
    assert not findings(server=old)
    assert not findings("kto", server=old)


def test_g7_paged_attention_cannot_train() -> None:
    repository = f"{COMMUNITY}/paged-attention"
    build = make_build("v1", repository=repository)
    finding = findings(given={"attn_implementation": repository}, build=build)["backward.none"]
    assert finding.severity == "block"
    assert "no backward" in finding.why
    assert "flash_attn_varlen_func" in finding.why
    other = f"{COMMUNITY}/flash-attn3"
    assert not findings(given={"attn_implementation": other}, build=make_build("v1", repository=other))


def test_a_server_without_a_gpu_has_one_fix() -> None:
    found = findings(server=make_server())
    assert [(finding.id, finding.severity) for finding in found.values()] == [("device.no_gpu", "block")]
    assert changes(found["device.no_gpu"]) == [{"use_cpu": True}]
    assert not findings(server=make_server(), given={"use_cpu": True})
    assert not findings(server=make_server(), given={"bf16": False})


def test_grouped_is_what_the_example_says() -> None:
    assert GQA.grouped
    assert not MHA.grouped
