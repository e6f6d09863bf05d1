"""Prints what the tests on emulated cards need, torch and NVIDIA's packages left out."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
LEFT_OUT = re.compile(r"torch\b|nbmem\b|nvidia-(?!ml-py)|cuda|triton")


def main():
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    own = project["dependencies"] + extras["nvml"] + extras["examples"] + extras["test-cuda"]
    of_torch = [one for one in requires("torch") if "extra ==" not in one]
    for requirement in own + of_torch:
        if not LEFT_OUT.match(requirement):
            print(requirement)


main()
