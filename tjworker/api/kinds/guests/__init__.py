"""What the job kinds of other operators have in common: a map of roles, a run policy, a status in a shape of their own.

`kind` says what differs by operator and by kind (`GuestKind`), `spec` the fields that all have, `parse` makes the
internal model of them, `status` writes what their users read (ADR 28). A family is a folder beside this one: the kinds
of one operator.
"""
