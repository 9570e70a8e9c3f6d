"""The link between guard and controller, as a process that can be told to go bad (`proxy`)."""
from __future__ import annotations

import json
import select
import subprocess
import sys

from steadyhand.errors import RobotError
from steadyhand_cli.injection import children
from steadyhand_cli.injection.proxy import PORTS, WAYS

ANSWER_S = 2.0


class Link:
    """Context manager. The guard's `--robot-ip` is `listen`, the controller's own address is `forward`."""

    def __init__(self, listen: str, forward: str):
        self.listen = listen
        self._process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_cli.injection.proxy", "--listen", listen, "--forward", forward],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=children.environment(),
        )
        try:
            self._answer(10.0)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def trouble(self, way: str = "both", ports: tuple[int, ...] = PORTS, **trouble: object) -> None:
        """Begin a trouble of `proxy.Trouble` on these ports, "to_robot", "to_guard" or "both" ways."""
        for port in ports:
            for one in WAYS if way == "both" else (way,):
                self._ask({"port": port, "way": one, "trouble": trouble})

    def cut(self, ports: tuple[int, ...] = PORTS) -> None:
        """Reset the connections of these ports."""
        for port in ports:
            self._ask({"cut": port})

    def heal(self) -> None:
        """A good cable again."""
        self.trouble()

    def close(self) -> None:
        """End the process; the connections end with it."""
        self._process.stdin.close()  # nothing is left in its buffer: every request was flushed
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(2.0)
        self._process.stdout.close()

    def _ask(self, request: dict) -> dict:
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise RobotError(f"link at {self.listen}: its process has gone ({error})") from error
        return self._answer(ANSWER_S)

    def _answer(self, timeout_s: float) -> dict:
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            raise RobotError(f"link at {self.listen}: no answer within {timeout_s} s")
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "its process has ended"}
        if not answer.get("ok"):
            raise RobotError(f"link at {self.listen}: {answer.get('error')}")
        return answer
