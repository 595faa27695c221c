"""A kubelet shows logs to the API server of its control plane, and to nobody else."""

from __future__ import annotations

import ssl
import urllib.request
from pathlib import Path

import pytest

from controlplane.certificates import make_pair
from localcluster.kubelet.logserver import LogServer


def test_only_who_has_the_certificate_reads_logs(tmp_path: Path) -> None:
    for name in ("own", "another"):
        certificate, key = make_pair()
        (tmp_path / f"{name}.crt").write_text(certificate)
        (tmp_path / f"{name}.key").write_text(key)
    own = str(tmp_path / "own.crt")
    server = LogServer(
        lambda *_: (tmp_path, lambda: True), cert_file=own, key_file=str(tmp_path / "own.key"), client_ca_file=own
    )
    try:
        answers = {}
        for name in ("own", "another", ""):
            context = ssl.create_default_context(cafile=own)
            if name:
                context.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
            url = f"https://127.0.0.1:{server.port}/healthz"
            if name == "own":
                with urllib.request.urlopen(url, context=context, timeout=60) as answer:
                    answers[name] = answer.read()
            else:
                with pytest.raises(OSError):  # noqa: PT011  TLS' own words
                    urllib.request.urlopen(url, context=context, timeout=60)
        assert answers == {"own": b"ok"}
        with pytest.raises(OSError):  # noqa: PT011
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=60)
    finally:
        server.close()
