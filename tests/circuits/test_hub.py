"""HMMs go to the Hugging Face Hub and come back, by huggingface_hub's own mixin; the Hub itself is a folder here."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.hub_mixin
import pytest
import torch

import tractile as tt
from tractile.circuits.io import huggingface as hub
from tractile.errors import FormatError


@pytest.fixture
def remote(tmp_path, monkeypatch) -> Path:
    """What would be on the Hub."""
    folder = tmp_path / "hub"

    class Api:
        def __init__(self, token=None):
            assert token == "secret"

        def create_repo(self, repo_id, private, exist_ok):
            assert private
            return SimpleNamespace(repo_id=repo_id)

        def upload_folder(self, repo_id, folder_path, **_):
            shutil.copytree(folder_path, folder / repo_id)
            return f"https://hub/{repo_id}/commit/1"

    def snapshot_download(name, allow_patterns, revision=None):
        assert revision == "main"
        if not (folder / name).exists():
            raise huggingface_hub.errors.LocalEntryNotFoundError("no such repository")
        return str(folder / name)

    monkeypatch.setattr(huggingface_hub.hub_mixin, "HfApi", Api)
    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    return folder


@pytest.mark.parametrize("transition", ["dense", "monarch"])
def test_there_and_back(remote: Path, transition: str) -> None:
    hmm = tt.HMM.random(6, 5, transition)
    assert hmm.push_to_hub("me/mine", token="secret", private=True) == "https://hub/me/mine/commit/1"
    assert "library_name: tractile" in (remote / "me" / "mine" / "README.md").read_text()
    again = tt.HMM.from_pretrained("me/mine", revision="main")
    tokens = torch.randint(5, (4, 7))
    torch.testing.assert_close(tt.log_marginal(again, tokens), tt.log_marginal(hmm, tokens))


def test_its_own_card_goes_along(remote: Path) -> None:
    tt.HMM.random(2, 3).push_to_hub("me/mine", "# Mine", token="secret", private=True)
    assert (remote / "me" / "mine" / "README.md").read_text() == "# Mine"


def test_what_is_not_there_is_said(remote: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="'me/other' is neither a directory nor a repository"):
        tt.HMM.from_pretrained("me/other", revision="main")
    with pytest.raises(FormatError, match="not a saved model"):
        tt.HMM.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="not a saved model"):
        tt.HMM.from_pretrained("nowhere")
