"""The command line as tests call it: what a verb prints, or its one sentence."""

from typer.testing import CliRunner

from gradsnap.cli.app import app
from gradsnap.errors import GradsnapError


def said(*arguments: object) -> str:
    """What a command prints to standard output, or its one-sentence error."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(result.exception, GradsnapError):
        return str(result.exception)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout
