"""Mutation: classic bugs of operators, each a patch, put into a copy of the tree one after another (`make
bugs`); and mutants of what decides and what writes (`make mutants`)."""
