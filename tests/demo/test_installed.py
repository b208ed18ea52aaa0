"""The demo finds its example where a wheel puts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import perdure
from perdure.infrastructure.cli.demo import example
assert not example.in_a_checkout()
print(perdure.__file__)
print(example.example_directory())
print(len(example.customer_requests()), len(example.orders()))
"""


def test_an_installed_package_brings_the_example_along(tmp_path: Path) -> None:
    """Laid out as the wheel is, away from the checkout, the demo loads requests and orders."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "perdure", tmp_path / "perdure", ignore=without_caches)
    for source, target in included.items():
        shutil.copytree(ROOT / source, tmp_path / target, ignore=without_caches)
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    package, example, counted = found.stdout.splitlines()
    assert Path(package).is_relative_to(tmp_path)
    assert Path(example).is_relative_to(tmp_path)
    assert counted == "4 5"
