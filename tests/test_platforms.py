"""The tests themselves on a platform that lacks what Linux has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

WITHOUT = """
import os, signal, sys
import numpy, torch  # which look for some of it themselves
sys.modules["resource"] = None
del os.fork, os.geteuid, os.mkfifo, signal.SIGKILL
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""

NEED_SOMETHING = [
    "tests/test_files.py",
    "tests/test_hostile_images.py",
    "tests/test_index_storage.py::test_a_kill_leaves_the_old_or_the_new",
    "tests/test_losses_exact.py",
    "tests/test_npy.py",
    "tests/test_storage.py::test_a_write_the_system_refuses_leaves_the_old_file",
]


def without_them(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest where there is neither fork nor resource."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, "-p", "no:cacheprovider", "-n", "0", *words],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


@pytest.mark.slow
def test_all_tests_can_be_imported_without_them() -> None:
    done = without_them("--collect-only", "-qq", "tests", "-m", "not gpu")
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_what_needs_them_is_skipped_with_a_reason() -> None:
    done = without_them("-q", *NEED_SOMETHING)
    assert done.returncode == 0, done.stdout[-3000:]
    for reason in (
        "cannot fork",
        "memory use cannot be asked for",
        "files cannot be kept small",
        "folders are not protected",
        "no pipes on this system",
    ):
        assert reason in done.stdout, reason
