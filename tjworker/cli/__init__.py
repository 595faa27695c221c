"""`tj`, the command for people. One file per command; `main` finds them lazily."""
