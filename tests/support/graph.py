"""A running graph of real processes in the worker's slot, with an operator's session and a watcher of the guard."""
import os
import time
from pathlib import Path

from steadyhand.slot import current_slot
from steadyhand_cli.injection import children
from steadyhand_cli.session import Session
from steadyhand_cli.watcher import GuardWatcher
from steadyhand_ros.launch_runner import child_environment, command_of
from steadyhand_ros.launch_xml import ProcessSpec
from steadyhand_ros.process_supervisor import ProcessSupervisor


def node(name: str, **parameters: object) -> ProcessSpec:
    """A node of steadyhand_ros that comes back when it dies."""
    given = tuple((k, str(v)) for k, v in parameters.items())
    return ProcessSpec(
        name=name, package="steadyhand_ros", executable=name, parameters=given, respawn=True, respawn_delay_s=0.2
    )


def command(name: str, line: str) -> ProcessSpec:
    """A command that comes back when it dies."""
    return ProcessSpec(name=name, command=line, respawn=True, respawn_delay_s=0.2)


class Graph:
    """Context manager: processes, session, watcher. `until` polls the supervisor while it waits."""

    def __init__(self, specs: list[ProcessSpec], folder: Path):
        environment = children.environment(child_environment(os.environ))
        self.said: list[str] = []
        self.folder = folder
        self.slot = current_slot()
        self.supervisor = ProcessSupervisor(
            specs, lambda spec: command_of(spec, environment), environment, folder, self.said.append
        )

    def __enter__(self):
        self.supervisor.start()
        self.session, self.watcher = Session(), GuardWatcher()
        return self

    def __exit__(self, *exc):
        self.supervisor.stop()
        self.watcher.close()
        self.session.__exit__(*exc)

    def until(self, condition, timeout_s: float, what: str):
        """Wait for `condition()`; fails with the tail of every log."""
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            self.supervisor.poll(time.monotonic())
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout_s} s for {what}\n{self.logs()}")
            time.sleep(0.01)

    def ask(self, client, request, timeout_s: float = 20.0):
        """The answer to a request that does no harm when repeated.

        It is sent again every 2 s: a service drops its answer when it has not yet discovered who asks.
        """
        self.until(lambda: client.service_is_ready(), timeout_s, f"{client.srv_name} to be served")
        sent, sent_s = [], float("-inf")

        def answer():
            nonlocal sent_s
            if time.monotonic() > sent_s + 2.0:
                sent.append(client.call_async(request))
                sent_s = time.monotonic()
            return next((future.result() for future in sent if future.done()), None)

        return self.until(answer, timeout_s, f"an answer of {client.srv_name}")

    def logs(self) -> str:
        """The end of each process's log."""
        return "\n".join(f"--- {p.name}\n{p.read_text()[-1500:]}" for p in sorted(self.folder.glob("*.log")))

    def pid(self, name: str) -> int:
        """Process id of a process that is alive."""
        return self.supervisor.pids()[name]
