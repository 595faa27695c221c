"""The common part of other operators' job kinds: a map of roles, a run policy, a status of their own form.

`kind` has the base class `GuestKind`, `spec` the common fields. `parse` makes the internal model of a job, `status`
writes the status that the users of these kinds read (ADR 28). The kinds of each operator have a folder next to this
one.
"""
