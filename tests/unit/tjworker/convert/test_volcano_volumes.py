"""The volumes of a Volcano job, whatever their claims and those of its templates are called: every mount leads to what
the job asks for, and every name is one that the API server takes for a volume."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.unit.tjworker.convert.manifests import Json, converted
from tests.unit.tjworker.convert.test_volcano import job, task

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SCRATCH = ""
"""A volume without a claim is an emptyDir."""
CLAIMS: dict[str, tuple[str, ...]] = {
    "one": ("data",),
    "a claim with dots, which a volume may not have": ("data.v1",),
    "several with dots": ("data.v1", "data.v2", "a.b.c"),
    "one of 64": ("d" * 64,),
    "as long as a claim may be": (".".join(["d" * 63] * 3),),
    "none": (SCRATCH,),
    "the same in two places": ("data", "data"),
    "one that is called as a volume without a claim would be": ("volume-1", SCRATCH),
    "the same beside one with dots": ("volume-1", "data.v1", "volume-0", SCRATCH),
}
OWN: dict[str, list[Json]] = {
    "its template has none": [],
    "its template has others": [{"name": "tmp", "emptyDir": {"medium": "Memory"}}],
    "its template has one of the same name": [
        {"name": name, "configMap": {"name": "settings"}} for name in ("data", "volume-0", "volume-1")
    ],
}


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("sentence", CLAIMS)
def test_each_mount_leads_to_what_the_job_asks_for(sentence: str, own: str) -> None:
    claims, given = CLAIMS[sentence], task()
    given["template"]["spec"]["volumes"] = OWN[own]
    volumes = [
        {"mountPath": f"/m{i}"} | ({"volumeClaimName": claim} if claim else {}) for i, claim in enumerate(claims)
    ]
    made = converted(job(given, volumes=volumes))
    pod = made.manifest["spec"]["replicaSpecs"]["worker"]["template"]["spec"]
    names = Counter(volume["name"] for volume in pod["volumes"])
    assert [name for name, times in names.items() if times > 1 or not LABEL.fullmatch(name)] == []
    assert pod["volumes"][: len(OWN[own])] == OWN[own], "the template's own stay as they are"
    sources = {volume["name"]: {k: v for k, v in volume.items() if k != "name"} for volume in pod["volumes"]}
    mounts = pod["containers"][0]["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == [f"/m{i}" for i in range(len(claims))]
    assert [sources[mount["name"]] for mount in mounts] == [
        {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}} for claim in claims
    ]
    scratch = [mount["name"] for mount, claim in zip(mounts, claims, strict=True) if not claim]
    assert len(set(scratch)) == len(scratch), "each without a claim is one of its own"
    held = {mount["name"] for mount, claim in zip(mounts, claims, strict=True) if claim}
    assert len(held) == len(set(claims) - {SCRATCH}), "one volume a claim"
