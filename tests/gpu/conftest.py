"""What tests on a card share."""

import pytest
from IPython.utils.capture import capture_output


@pytest.fixture
def printed(shell):
    """What a subcommand prints in the shell: `printed("ledger")`."""

    def run(line):
        with capture_output() as captured:
            shell.run_line_magic("gpumem", line)
        return "\n".join(each.data["text/plain"] for each in captured.outputs)

    return run
