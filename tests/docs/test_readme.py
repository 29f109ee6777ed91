"""The README's promises: its code prints what it shows, its tables name what there is, its links lead somewhere."""

import re
import shlex
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from tractile.cli import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_extra_is_described():
    described = set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE))
    assert described == set(PROJECT["optional-dependencies"]) - {"test", "docs", "lint", "peers"}


def test_all_has_the_extras_for_users():
    inside = re.fullmatch(r"tractile\[(.*)\]", PROJECT["optional-dependencies"]["all"][0])[1].split(",")
    assert set(inside) == set(PROJECT["optional-dependencies"]) - {
        "all", "examples", "vllm", "test", "docs", "lint", "peers",
    }  # fmt: skip


def test_links_lead_somewhere():
    """Relative links exist; once the project has an address, none are left, since they break on a package index."""
    links = [urlsplit(link) for link in re.findall(r"\]\(([^)\s]+)\)", README)]
    relative = [link for link in links if not link.scheme]
    if "urls" in PROJECT:
        assert relative == []
    for link in relative:
        page = ROOT / link.path
        assert page.is_file(), link.path
        if link.fragment:
            headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert link.fragment in {
                re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings
            }


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in citation
    assert f"version = {{{PROJECT['version']}}}" in README


@pytest.mark.long
def test_the_command_line_runs():
    (command,) = re.findall(r"^tractile (generate .*)$", README, re.MULTILINE)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output
    assert "dog" in result.output
    assert "log Z" in result.output
