"""What a CRD's schema does to its objects: prune, default, validate, as kube-apiserver 1.36 does and says.

`StructuralSchema` is compiled once a CRD version and then only read. Pure; imports nothing of the API server. `prune`
and `default` change the object that they are given and may run twice; `validate` and `check` change nothing.

Serves: CRDs with pruning, defaults and CEL (docs/local-cluster.md); `kubectl apply` of a CRD and of its objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import orjson

from localcluster.schema.causes import BLOCKING, FieldCause, aggregate, rules_not_checked
from localcluster.schema.cel_rules import build_rules, run_rules
from localcluster.schema.defaults import apply_defaults, drop_nulls
from localcluster.schema.listtype import validate_lists
from localcluster.schema.node import SchemaNode, build
from localcluster.schema.prune import prune_metadata, prune_value
from localcluster.schema.structure import check_schema, prune_defaults
from localcluster.schema.values import ValueValidator
from localcluster.wire import Json

__all__ = ["FieldCause", "StructuralSchema", "aggregate", "compiled"]


def compiled(schema: Json) -> StructuralSchema:
    """The same as `StructuralSchema(schema)`, made once for each schema: the API server asks for it at every write of a
    CRD, and a simulation makes thousands of clusters with one CRD."""
    return _compiled(orjson.dumps(schema))


@lru_cache(maxsize=32)
def _compiled(schema: bytes) -> StructuralSchema:
    return StructuralSchema(orjson.loads(schema))


class StructuralSchema:
    """`schema` is `spec.versions[].schema.openAPIV3Schema`. Any dict is accepted; `check` says whether it may be
    used."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._node = prune_defaults(build(schema))
        self._rules = build_rules(self._node, resource_root=True)
        self._checked: dict[str, tuple[FieldCause, ...]] = {}
        self._root = replace(self._node, embedded=True)
        """The root for pruning: every object of the resource has metadata, whatever the schema says."""

    @property
    def node(self) -> SchemaNode:
        return self._node

    def check(self, path: str = "spec.validation.openAPIV3Schema") -> list[FieldCause]:
        """What is wrong with the schema itself: unknown types, patterns and rules that do not compile. `path` is its
        place in the CRD (`spec.versions[0].schema.openAPIV3Schema` where versions differ)."""
        if path not in self._checked:
            self._checked[path] = tuple(check_schema(self._schema, path))
        return list(self._checked[path])

    def prune(self, obj: Json) -> list[str]:
        """Takes unknown fields and meaningless nulls out of `obj`. Returns the complaints of field validation, such as
        `unknown field "spec.foo"`: those of metadata first, then the others sorted."""
        unknown = prune_metadata(obj.get("metadata"), "metadata")
        unknown += prune_value(obj, self._root)
        drop_nulls(obj, self._node)
        return [f'unknown field "{path}"' for path in unknown]

    def default(self, obj: Json) -> None:
        drop_nulls(obj, self._node)
        apply_defaults(obj, self._node)

    def validate(
        self, obj: Json, old: Json | None = None, *, subresource: str = "", prior: Sequence[FieldCause] = ()
    ) -> list[FieldCause]:
        """The causes of a 422 in the API server's order, without the metadata's and the scale's.

        With `old` (an update) rules about oldSelf run; list items repeated before may stay.
        `subresource="status"` checks the values of the status alone. `prior` are errors found before: those that block
        CEL rules do so here too; they are not returned again."""
        causes = self._values(obj, subresource)
        repeated = validate_lists(obj, self._node)
        if repeated and (old is None or not validate_lists(old, self._node)):
            causes += repeated
        if self._rules is not None:
            if any(cause.reason in BLOCKING for cause in (*prior, *causes)):
                causes.append(rules_not_checked())
            else:
                causes += run_rules(self._rules, obj, old)
        return causes

    def _values(self, obj: Json, subresource: str) -> list[FieldCause]:
        if subresource != "status":
            return ValueValidator().validate(obj, self._node)
        status = self._node.properties.get("status")
        if status is None or "status" not in obj:
            return []
        return ValueValidator("status").validate(obj["status"], status)
