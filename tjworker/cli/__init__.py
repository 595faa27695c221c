"""`tj`, the command for people. One file per command (suspend has resume, too); `main` finds them lazily."""
