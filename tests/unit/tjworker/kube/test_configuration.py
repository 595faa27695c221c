"""Which configuration is used, and what is said of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.tjworker.kube.http_server import write_kubeconfig
from tjworker.base import Terminal
from tjworker.kube.configuration import load_configuration


def test_without_any_configuration_the_message_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Terminal, match="Set KUBECONFIG"):
        load_configuration()


def test_the_kubeconfig_that_is_given_counts_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_kubeconfig(tmp_path / "given", "https://given", "x")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert load_configuration(tmp_path / "given").host == "https://given"


BROKEN = {
    "no YAML": "{",
    "a list": "- a",
    "no current context": "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    "a context of a cluster that is missing": (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: []\nusers: []\n"
        "contexts: [{name: c, context: {cluster: x, user: y}}]\n"
    ),
    "an authority that is no base64": (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: [{name: y, user: {}}]\n"
        "contexts: [{name: c, context: {cluster: x, user: y}}]\n"
        "clusters: [{name: x, cluster: {server: 'https://h', certificate-authority-data: 'a'}}]"
    ),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_kubeconfig_is_named_in_one_line(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "broken"))
    with pytest.raises(Terminal) as refused:
        load_configuration()
    assert str(tmp_path / "broken") in refused.value.message
    assert "choose another with KUBECONFIG" in refused.value.message
    assert "\n" not in refused.value.message
    assert "object does not support" not in refused.value.message, "Python's words about our reader, not about the file"
    assert ".." not in refused.value.message
