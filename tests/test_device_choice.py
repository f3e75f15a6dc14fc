"""Which GPU a judge takes, told without one. Not covered: two GPUs at work, each with a judge of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.errors import InfrastructureError
from tools.targets.cuda_toolkit import chosen_architecture
from tools.targets.device_choice import chosen_device, take_chosen_device

UUID = "GPU-3e6ad8e5-2a3c-7b1f-0000-0123456789ab"


@pytest.mark.parametrize(
    ("visible", "named", "chosen"),
    [
        (None, None, None),
        ("", "", None),
        ("2,3", None, "2"),
        (None, "1", "1"),
        (None, "01", "1"),
        ("2,3", "1", "3"),
        (f"{UUID},GPU-ff", "0", UUID),
        (None, UUID, UUID),
        ("2,3", UUID, UUID),
        (None, "GPU-3e6a", "GPU-3e6a"),
    ],
)
def test_a_device_is_chosen_by_number_or_uuid(visible: str | None, named: str | None, chosen: str | None) -> None:
    given = {"CUDA_VISIBLE_DEVICES": visible, "WARPSMITH_DEVICE": named}
    environment = {name: value for name, value in given.items() if value is not None}
    assert chosen_device(environment) == chosen
    before = dict(environment)
    take_chosen_device(environment)
    if not named:
        assert environment == before
        return
    assert environment["CUDA_VISIBLE_DEVICES"] == chosen
    take_chosen_device(environment)
    assert environment["CUDA_VISIBLE_DEVICES"] == chosen, "a second judge of the process takes the same"


@pytest.mark.parametrize(
    ("visible", "named", "says"),
    [("2,3", "2", "lists 2"), (None, "-1", "no device"), (None, "H200", "no device"), (None, "0;rm", "no device")],
)
def test_what_names_none_is_refused(visible: str | None, named: str, says: str) -> None:
    environment = {"WARPSMITH_DEVICE": named} | ({"CUDA_VISIBLE_DEVICES": visible} if visible else {})
    with pytest.raises(InfrastructureError, match=says):
        chosen_device(environment)


def test_kernels_are_built_for_the_chosen_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text('#!/bin/sh\ncase "$*" in *--id=1*) ;; *) echo "NVIDIA A100, 8.0" ;; esac\necho "NVIDIA H200, 9.0"\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("WARPSMITH_CUDA_ARCH", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("WARPSMITH_DEVICE", raising=False)
    assert chosen_architecture() == "sm_80"
    monkeypatch.setenv("WARPSMITH_DEVICE", "1")
    assert chosen_architecture() == "sm_90a"
