"""Copies into the wheel what the stack takes from a checkout: the CRDs that it applies, and the example that `tj demo`
trains. `tjstack.paths.project_root` finds them. Everything else is in pyproject.toml.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).resolve().parent.parent
FILES = (
    "k8s/crds/*.yaml",
    "k8s/kinds/*/*.yaml",
    "examples/__init__.py",
    "examples/digits/*.py",
    "examples/digits/*.yaml",
)


class BuildWithProject(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:  # the checkout itself is there
            return
        for source in (path for pattern in FILES for path in sorted(CHECKOUT.glob(pattern))):
            target = Path(self.build_lib) / "tjstack" / "project" / source.relative_to(CHECKOUT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithProject})
