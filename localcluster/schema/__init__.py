"""What a CRD's schema does to its objects: prune, default, validate, as kube-apiserver 1.36 does and says.

`StructuralSchema` is compiled once a CRD version and then only read. Pure; imports nothing of the API server. `prune` and
`default` change the object that they are given and may run twice; `validate` and `check` change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import orjson

from localcluster.schema.causes import BLOCKING, FieldCause, aggregate, rules_not_checked
from localcluster.schema.cel_rules import build_rules, run_rules
from localcluster.schema.correlate import Correlated
from localcluster.schema.defaults import apply_defaults, drop_nulls
from localcluster.schema.embedded import validate_embedded
from localcluster.schema.listtype import validate_lists
from localcluster.schema.node import Node, build
from localcluster.schema.normal import NormalParts
from localcluster.schema.prune import prune_embedded_metadata, prune_metadata, prune_value
from localcluster.schema.structure import check_schema, prune_defaults
from localcluster.schema.values import ValueValidator

Json = dict[str, Any]

__all__ = ["FieldCause", "StructuralSchema", "aggregate", "compiled"]


def compiled(schema: Json) -> StructuralSchema:
    """The same as `StructuralSchema(schema)`, made once for each schema: the API server asks for it at every write of a CRD,
    and a simulation makes thousands of clusters with one CRD."""
    return _compiled(orjson.dumps(schema))


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> StructuralSchema:
    return StructuralSchema(orjson.loads(schema))


class StructuralSchema:
    """`schema` is `spec.versions[].schema.openAPIV3Schema`. Any dict is accepted; `check` says whether it may be used."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._node = prune_defaults(build(schema))
        self._rules = build_rules(self._node, resource_root=True)
        self._checked: dict[tuple[str, bool], tuple[FieldCause, ...]] = {}
        self._root = replace(self._node, embedded=True)
        """As pruning sees it: every object of the resource has metadata, whatever the schema says."""
        self._pruned, self._defaulted, self._unrepeated = NormalParts(), NormalParts(), NormalParts()

    @property
    def node(self) -> Node:
        return self._node

    def check(
        self, path: str = "spec.validation.openAPIV3Schema", *, status_subresource: bool = False
    ) -> list[FieldCause]:
        """What is wrong with the schema itself: not structural, bad defaults, rules that do not compile. `path` is where it
        stands in the CRD (`spec.versions[0].schema.openAPIV3Schema` where versions differ)."""
        asked = (path, status_subresource)
        if asked not in self._checked:
            self._checked[asked] = tuple(check_schema(self._schema, path, status_subresource=status_subresource))
        return list(self._checked[asked])

    def prune(self, obj: Json) -> list[str]:
        """Takes unknown fields and meaningless nulls out of `obj`. Returns what field validation says of it:
        `unknown field "spec.foo"`, metadata first, else sorted."""
        return self._pruned.through(obj, self._prune)

    def _prune(self, obj: Json) -> list[str]:
        unknown = prune_metadata(obj.get("metadata"), "metadata")
        unknown += prune_value(obj, self._root)
        drop_nulls(obj, self._node)
        unknown += sorted(prune_embedded_metadata(obj, self._node, ""))
        return [f'unknown field "{path}"' for path in unknown]

    def default(self, obj: Json) -> None:
        self._defaulted.through(obj, self._default)

    def _default(self, obj: Json) -> None:
        drop_nulls(obj, self._node)
        apply_defaults(obj, self._node)

    def validate(
        self, obj: Json, old: Json | None = None, *, subresource: str = "", prior: Sequence[FieldCause] = ()
    ) -> list[FieldCause]:
        """The causes of a 422 in the API server's order, without the metadata's and the scale's.

        With `old` (an update) errors in unchanged parts are let through and rules about oldSelf run. `subresource="status"`
        checks the values of the status alone. `prior` are errors found before: those that block CEL rules do so here too;
        they are not returned again."""
        causes = self._values(obj, old, subresource)
        if subresource != "status":
            causes += validate_embedded(obj, self._node)
        repeated = self._unrepeated.through({**obj}, lambda shown: validate_lists(shown, self._node))
        if repeated and (old is None or not validate_lists(old, self._node)):
            causes += repeated
        if self._rules is not None:
            if any(cause.reason in BLOCKING for cause in (*prior, *causes)):
                causes.append(rules_not_checked())
            else:
                correlated = None if old is None else Correlated(obj, old, self._node)
                causes += run_rules(self._rules, obj, old, correlated)
        return causes

    def _values(self, obj: Json, old: Json | None, subresource: str) -> list[FieldCause]:
        if subresource != "status":
            return ValueValidator().validate(obj, self._node, None if old is None else Correlated(obj, old, self._node))
        status = self._node.properties.get("status")
        if status is None or "status" not in obj:
            return []
        correlated = None if old is None else Correlated(obj, old, self._node).key("status")
        return ValueValidator("status").validate(obj["status"], status, correlated)
