"""Looks at what is installed, without a network: audit.py [--quick].

Every distribution must be pinned in constraints.txt to the version that is there, and
its files must have the checksums its own RECORD gives them. Known vulnerabilities are
not looked up: that needs a network, and an audit that may fail for that is left to the
platform the repository lies on.
"""

import base64
import hashlib
import re
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
OWN = {"gradsnap", "pip", "setuptools", "wheel"}
"""Not pinned: ourselves, and what comes with Python's venv."""


def normal(name: str) -> str:
    """A name as indexes of packages compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    """The version of each name in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(";")[0].split("==") for line in lines if "==" in line)
    return {normal(name.strip()): version.strip() for name, version in pairs}


def changed_files(one: metadata.Distribution) -> list[str]:
    """Files whose contents are not what RECORD says."""
    bad = []
    for file in one.files or ():
        path = Path(str(one.locate_file(file)))
        if file.hash is None or file.suffix == ".pyc" or not path.is_file():
            continue
        found = hashlib.new(file.hash.mode, path.read_bytes()).digest()
        if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != file.hash.value:
            bad.append(str(file))
    return bad


def main() -> int:
    """Prints what is not as it should be; 1 if anything."""
    known, problems = pins(), []
    everything = list(metadata.distributions())
    for one in everything:
        name, version = normal(one.metadata["Name"]), one.version.partition("+")[0]
        if name not in OWN and name not in known:
            problems.append(f"{name} {version} is not pinned in constraints.txt")
        elif name not in OWN and known[name].partition("+")[0] != version:
            problems.append(f"{name} is {version}, constraints.txt says {known[name]}")
        if name not in OWN and "--quick" not in sys.argv[1:]:
            problems += [f"{name}: {file} was changed" for file in changed_files(one)]
    sys.stdout.write(
        "\n".join(problems) or f"{len(everything)} distributions are as pinned"
    )
    sys.stdout.write("\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
