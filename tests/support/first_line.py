"""What a process that was started says first. A wait with a limit: a process that hangs is a failure that says where."""
import contextlib
import select
import signal
import subprocess

LIMIT_S = 60.0


def first_line(process: subprocess.Popen, limit_s: float = LIMIT_S) -> str:
    """Its first line, empty when it ended without one. One that is silent is ended by SIGABRT: a process with a
    fault handler then prints where it was."""
    if not select.select([process.stdout], [], [], limit_s)[0]:
        process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
        said = process.stderr.read() if process.stderr and process.poll() is not None else ""
        raise AssertionError(f"{process.args} said nothing within {limit_s:g} s. {said}")
    return process.stdout.readline()
