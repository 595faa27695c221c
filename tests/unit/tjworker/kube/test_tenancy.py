"""k8s/tenancy forgets no job kind. What the API server says by it: tests/e2e/control_plane/test_tenancy*.py."""

from __future__ import annotations

import pytest
import yaml

from tests.support.kinds import TRAININGJOBS
from tests.support.paths import ROOT
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import JobKind
from tjworker.kube.rbac import TENANCY

POLICIES = {
    document["metadata"]["name"]: document["spec"]
    for document in yaml.safe_load_all((ROOT / TENANCY).read_text(encoding="utf-8"))
    if document["kind"] == "ValidatingAdmissionPolicy"
}
JUDGED = {"tj-job-templates": ("", {"CREATE", "UPDATE"}), "tj-job-sizes": ("/scale", {"UPDATE"})}


@pytest.mark.parametrize("kind", KNOWN_KINDS.values(), ids=lambda kind: str(kind.resource))
def test_every_kind_is_judged_and_so_is_who_scales_it(kind: JobKind) -> None:
    for name, (subresource, operations) in JUDGED.items():
        rules = POLICIES[name]["matchConstraints"]["resourceRules"]
        mine = [rule for rule in rules if kind.group in rule["apiGroups"]]
        assert [kind.plural + subresource in rule["resources"] for rule in mine] == [True], f"{name}: make generate"
        assert set(mine[0]["operations"]) == operations
        assert mine[0]["apiVersions"] == ["*"]


@pytest.mark.parametrize("kind", KNOWN_KINDS.values(), ids=lambda kind: str(kind.resource))
def test_a_kinds_templates_stand_where_the_policy_looks_for_them(kind: JobKind) -> None:
    fields = [
        field.alias or name
        for name, field in kind.spec_model.model_fields.items()
        if (field.alias or name).endswith("eplicaSpecs")
    ]
    assert len(fields) == (kind.resource != TRAININGJOBS), f"{fields}: name its templates in {TENANCY}"
    assert "endsWith('eplicaSpecs')" in str(POLICIES["tj-job-templates"]["variables"])
