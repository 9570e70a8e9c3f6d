"""The helper of the process tests that waits for a process's first line."""
import subprocess
import sys

import pytest

from tests.support.first_line import first_line


def started(code):
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([sys.executable, "-X", "faulthandler", "-c", code], **pipes)


def test_the_first_line_and_its_lack():
    for code, line in (("print('ready'); print('more')", "ready\n"), ("raise SystemExit(3)", "")):
        with started(code) as process:
            assert first_line(process) == line


def test_a_silent_process_is_ended_and_says_where_it_was():
    with started("import time\ntime.sleep(60)") as process:
        with pytest.raises(AssertionError, match="said nothing within 2 s(.|\n)*Fatal Python error: Aborted"):
            first_line(process, 2.0)
        assert process.returncode is not None
