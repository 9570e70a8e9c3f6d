"""What the dashboard server understands, and its exact answers, by controller generation. Pure: no socket.

Source: Universal Robots, "Dashboard Server, CB-Series" (3.x) and "Dashboard Server, e-Series" (5.x): the texts below are
those of their tables; which generation knows which command is theirs too, checked against the vendor's own client
(Universal_Robots_Client_Library, `dashboard_client_implementation_g5.cpp`: command, pattern of the answer, first
version). What neither gives is marked A in `docs/emulated_controller.md`.
"""
from __future__ import annotations

from collections.abc import Callable

from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.modes import MOTION_ALLOWED, RuntimeState, SafetyMode

TOO_EARLY = (
    "Cannot unlock protective stop until 5s after occurrence. "
    "Always inspect cause of protective stop before unlocking"
)
# to what is remote only: in local control, and on a connection that has seen a switch between local and remote
NOT_ALLOWED = (
    "Command is not allowed due to safety reasons, please switch robot to Remote Control mode and reconnect to port 29999"
)
ROLES = ("programmer", "operator", "none", "locked", "restricted")
OPERATIONAL_MODES = ("manual", "automatic")
# refused in local control on e-Series (guide: "available in remote control only")
REMOTE_ONLY = frozenset((
    "load", "play", "stop", "pause", "power on", "power off", "brake release", "unlock protective stop",
    "load installation", "restart safety", "shutdown",
))  # fmt: skip
CB3_ONLY = frozenset(("setuserrole", "getuserrole"))
E_SERIES_ONLY = frozenset((
    "version", "safetystatus", "is in remote control", "set operational mode", "get operational mode",
    "clear operational mode",
))  # fmt: skip


class Dashboard:
    """Commands -> answers, on one controller. Commands are matched without regard to case, as the real server does."""

    def __init__(self, controller: URController):
        self._c = controller
        self._role, self._operational_mode = "PROGRAMMER", "NONE"
        self._plain: dict[str, Callable[[], str]] = {
            "polyscopeversion": self._polyscope,
            "version": lambda: ".".join(map(str, controller.config.version[:3])),
            "robotmode": lambda: f"Robotmode: {controller.robot_mode.name}",
            "safetymode": lambda: f"Safetymode: {controller.safety_mode.legacy.name}",
            "safetystatus": lambda: f"Safetystatus: {controller.safety_mode.name}",
            "programstate": self._program_state,
            "running": lambda: f"Program running: {str(controller.runtime_state is RuntimeState.PLAYING).lower()}",
            "isprogramsaved": self._is_saved,
            "get loaded program": self._loaded,
            "stop": self._stop,
            "pause": lambda: self._done("pause", "Pausing program", controller.pause_program()),
            "play": lambda: self._done("play", "Starting program", controller.press_play()),
            "power on": lambda: self._done("power on", "Powering on", controller.power_on()),
            "power off": self._power_off,
            "brake release": lambda: self._done("brake release", "Brake releasing", controller.brake_release()),
            "unlock protective stop": self._unlock,
            "close safety popup": lambda: "closing safety popup",
            "close popup": self._close_popup,
            "restart safety": self._restart_safety,
            "get robot model": lambda: controller.config.model,
            "get serial number": lambda: controller.config.serial_number,
            "is in remote control": lambda: str(controller.remote_control).lower(),
            "getuserrole": lambda: self._role,
            "get operational mode": lambda: self._operational_mode,
            "clear operational mode": self._clear_operational_mode,
            "savelog": lambda: "Log saved to disk",
            "shutdown": self._shutdown,
        }
        self._with_text: dict[str, Callable[[str], str]] = {
            "load installation": self._load_installation,
            "load": self._load,
            "popup": self._popup,
            "addtolog": self._add_to_log,
            "setuserrole": self._set_role,
            "set operational mode": self._set_operational_mode,
        }
        missing = E_SERIES_ONLY if not controller.config.is_e_series else CB3_ONLY
        for commands in (self._plain, self._with_text):
            for name in missing & set(commands):
                del commands[name]

    def answer(self, line: str, stale: bool = False) -> str:
        """The answer, without its new line. `stale`: control has been switched since the client connected."""
        text = line.strip()
        words = text.lower()
        for name, command in self._with_text.items():
            if words == name or words.startswith(name + " "):
                return self._refusal(name, stale) or command(text[len(name):].strip())
        if words not in self._plain:
            return f"could not understand: '{text}'"
        return self._refusal(words, stale) or self._plain[words]()

    def _refusal(self, name: str, stale: bool) -> str:
        """Of what is remote only; empty when there is none."""
        local = self._c.config.is_e_series and (stale or not self._c.remote_control)
        return NOT_ALLOWED if local and name in REMOTE_ONLY else ""

    @property
    def control_switches(self) -> int:
        """How often control went between local and remote."""
        return self._c.control_switches

    @staticmethod
    def _done(name: str, text: str, done: bool) -> str:
        return text if done else f"Failed to execute: {name}"

    def _polyscope(self) -> str:
        date = "Oct 15 2021" if self._c.config.is_e_series else "Jun 20 2022"
        return f"URSoftware {'.'.join(map(str, self._c.config.version))} ({date})"

    # --- programs ---

    @property
    def _name(self) -> str:
        return self._c.loaded_program or self._c.program_name or "<unnamed>"

    def _program_state(self) -> str:
        state = self._c.runtime_state
        if state is RuntimeState.PAUSED or state is RuntimeState.PAUSING:
            word = "PAUSED"
        else:
            word = "PLAYING" if state in (RuntimeState.PLAYING, RuntimeState.RESUMING) else "STOPPED"
        return f"{word} {self._name}"

    def _is_saved(self) -> str:
        return f"{str(bool(self._c.loaded_program)).lower()} {self._name}"

    def _loaded(self) -> str:
        return f"Loaded program: /programs/{self._c.loaded_program}" if self._c.loaded_program else "No program loaded"

    def _load(self, name: str) -> str:
        return f"Loading program: {name}" if self._c.load_program(name) else f"File not found: {name}"

    def _load_installation(self, name: str) -> str:
        known = name == "default.installation"
        return f"Loading installation: {name}" if known else f"File not found: {name}"

    def _stop(self) -> str:
        self._c.stop_program()
        return "Stopped"

    # --- power and safety ---

    def _power_off(self) -> str:
        self._c.power_off()
        return "Powering off"

    def _shutdown(self) -> str:
        self._c.shutdown()
        return "Shutting down"

    def _unlock(self) -> str:
        if self._c.safety_mode is SafetyMode.PROTECTIVE_STOP:
            if self._c.protective_age_s < self._c.config.unlock_delay_s:
                return TOO_EARLY
            self._c.unlock_protective_stop()
            return "Protective stop releasing"
        allowed = self._c.safety_mode in MOTION_ALLOWED
        return "Protective stop releasing" if allowed else "Failed to execute: unlock protective stop"

    def _restart_safety(self) -> str:
        self._c.restart_safety()
        return "Restarting safety"

    # --- what a person sees ---

    def _popup(self, text: str) -> str:
        self._c.popup = text
        return "showing popup"

    def _close_popup(self) -> str:
        self._c.popup = ""
        return "closing popup"

    def _add_to_log(self, text: str) -> str:
        if not text:
            return "No log message to add"
        self._c.log(text)
        return "Added log message"

    def _set_role(self, role: str) -> str:
        if role.lower() not in ROLES:
            return f"Failed setting user role: {role}"
        self._role = role.upper()
        return f"Setting user role: {role}"

    def _set_operational_mode(self, mode: str) -> str:
        if mode.lower() not in OPERATIONAL_MODES:
            return f"Failed setting operational mode: {mode}"
        self._operational_mode = mode.upper()
        return f"Operational mode {mode} is set"

    def _clear_operational_mode(self) -> str:
        self._operational_mode = "NONE"
        return "No longer controlling the operational mode. Current operational mode: NONE"
