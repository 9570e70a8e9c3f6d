"""A vehicle beside the arm and its guard, by the rules of docs/cell.md: it docks, leaves, stops, and tells so in beats.

A model of `guard.agv_core`, not that: it keeps the interlock (claims, waits for as long as a silence may last, looks
again) and the stop domain, and has a place on one line, so that it is near or not. Its guard may die while it rolls on.
"""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steadyhand.errors import ProtocolError
from steadyhand.guard_protocol import Beat, decode
from steadyhand_cli.dst.cell import ARM, PARTNER

if TYPE_CHECKING:
    from steadyhand_cli.dst.world import World

TO_VEHICLE, TO_ARM = "arm-vehicle", "vehicle-arm"
LINKS = (TO_VEHICLE, TO_ARM)
BEAT_CYCLES, BEAT_AT_S = 5, 0.002  # its loop takes 20 ms and beats at every second turn; when within the arm's cycle
SILENCE_S, LATE_LIMIT_S = 0.1, 0.5
SPEED_M_S, BRAKING_S, FAR_M, NEAR_M = 0.8, 1.0, 5.0, 3.5
DWELL_S, RETRY_S, REARM_S, IDLE_S = (8.0, 25.0), (1.5, 3.0), (0.4, 1.2), 0.5
MOVES = "the vehicle moves, or is about to"
KEPT = 10  # beats that wait in the kernel's buffer


class Vehicle:
    """`cycle` is its guard's turn; everything else that it does is an event of the world."""

    def __init__(self, world: World, rng: random.Random):
        self.world, self.rng = world, rng
        self.rolling = False  # the wheels turn: the truth, whatever its guard knows
        self.late_s, self.late_until_s = 0.0, float("-inf")  # what it tells is so old
        self._x_m, self._to_m, self._since_s = 0.0, 0.0, 0.0  # from the dock, when it began to roll
        self._due: list[int] = []  # events of the trip
        self._start(armed=True)
        self._in(rng.uniform(4.0, 12.0), self._set_out)

    def _start(self, armed: bool) -> None:
        """A new process."""
        self.alive, self.armed, self.hung_until_s = True, armed, float("-inf")
        self.boot, self.stops, self.cause, self.unsafe = self.rng.randint(1, 2**31 - 1), 0, "", ""
        self.claims, self.rested = False, not self.rolling
        self.heard: Beat | None = None
        self.heard_s = float("-inf")
        self.told: Beat | None = None
        self.told_s = float("-inf")
        self._news = ""  # heard, not acted on yet
        self._inbox: list[Any] = []

    # --- time ------------------------------------------------------------------------------------------------------
    def _in(self, delay_s: float, act: Callable[[], None]) -> int:
        return self.world.at(self.world.clock.now_s + delay_s, act)

    def _between(self, span_s: tuple[float, float]) -> float:
        return self.rng.uniform(*span_s)

    def runs(self, now_s: float) -> bool:
        """Whether its guard is there and not stopped by the system."""
        return self.alive and now_s > self.hung_until_s

    def routine(self, now_s: float) -> bool:
        """Whether it goes on as it does, telling and hearing the same."""
        return (
            self.runs(now_s) and now_s > self.late_until_s and not self._news and not self._inbox
            and self.hung_until_s == float("-inf")
            and self.told == self.beat() and now_s - self.told_s < 2 * BEAT_CYCLES * self.world.clock.period_s
            and self.heard is not None and self.heard == self.world.host.told and now_s - self.heard_s < 0.5 * SILENCE_S
            and not (self.told.zone and self.heard.zone)
        )  # fmt: skip

    # --- where it is -----------------------------------------------------------------------------------------------
    @property
    def near(self) -> bool:
        """Whether it is where the arm can reach it, or so near that it cannot rest before."""
        return self._x_m < NEAR_M

    @property
    def rolls_near(self) -> bool:
        """Whether it truly rolls there, and is not braking, nor left alone by its guard."""
        return self.rolling and self.near and self.armed

    def _place(self) -> None:
        """Where it has come to, of a straight way at one speed."""
        if self.rolling:
            way_m = SPEED_M_S * (self.world.clock.now_s - self._since_s)
            step_m = self._to_m - self._x_m
            self._x_m += max(-way_m, step_m) if step_m < 0 else min(way_m, step_m)
        self._since_s = self.world.clock.now_s

    def _plan(self, act: Callable[[], None], delay_s: float) -> None:
        self._due.append(self._in(delay_s, act))

    def _forget(self) -> None:
        for number in self._due:
            self.world.forget(number)
        self._due = []

    # --- a trip ----------------------------------------------------------------------------------------------------
    def _set_out(self) -> None:
        """To the dock or away from it, when it may."""
        now_s = self.world.clock.now_s
        self._forget()
        if not self.runs(now_s) or not self.armed or self.near and self.occupied(now_s):
            return self._plan(self._set_out, self._between(RETRY_S))
        self.claims = True
        return self._plan(self._begin, SILENCE_S)

    def set_out_now(self, heeds: bool) -> bool:
        """Told to leave at once; without heeding the arm, when it does not."""
        if not self.runs(self.world.clock.now_s) or not self.armed or self.rolling:
            return False
        self._forget()
        if heeds:
            self._set_out()
        else:
            self.claims = True
            self._roll()
        return True

    def _begin(self) -> None:
        now_s = self.world.clock.now_s
        self._forget()
        if self.armed and self.runs(now_s) and not (self.near and self.occupied(now_s)):
            return self._roll()
        self.claims = False
        return self._plan(self._set_out, self._between(RETRY_S))

    def _roll(self) -> None:
        self.rolling, self.rested, self._since_s = True, False, self.world.clock.now_s
        self._to_m = 0.0 if self._x_m > 0.5 * FAR_M else FAR_M
        border_s = (NEAR_M - self._x_m) / SPEED_M_S * (1.0 if self._to_m > self._x_m else -1.0)
        if border_s > 0.0:
            self._plan(self._place, border_s + 1e-6)
        self._plan(self._arrive, abs(self._to_m - self._x_m) / SPEED_M_S)

    def _arrive(self) -> None:
        self._place()
        self._forget()
        self.rolling = False
        self._plan(self._idle, IDLE_S)

    def _idle(self) -> None:
        """It rests, and its task has ended."""
        self._forget()
        self.claims, self.rested = False, True
        self._plan(self._set_out, self._between(DWELL_S))

    def _brake(self) -> None:
        self._forget()
        self._plan(self._arrive if self.rolling else self._idle, BRAKING_S if self.rolling else 0.1)

    # --- its guard -------------------------------------------------------------------------------------------------
    def beat(self) -> Beat:
        """What it tells."""
        zone = MOVES if self.near and (self.claims or not self.rested) else ""
        return Beat(PARTNER, self.boot, self.stops, self.cause, self.unsafe, zone)

    def occupied(self, now_s: float) -> bool:
        """Whether the arm is, will be, or may be where it stands."""
        return self.heard is None or now_s - self.heard_s > SILENCE_S or bool(self.heard.zone)

    def hears(self, packet: Any, now_s: float) -> None:
        """A datagram has come."""
        if not self.alive:
            return
        if now_s <= self.hung_until_s:
            if len(self._inbox) < KEPT:
                self._inbox.append(packet)
            return
        if isinstance(packet, bytes):
            try:
                packet = decode(packet)
            except ProtocolError:
                return
        if not isinstance(packet, Beat) or packet.guard != ARM:
            return
        before, self.heard, self.heard_s = self.heard, packet, now_s
        if before is not None and (before.boot, before.stops) != (packet.boot, packet.stops):
            self._news = "the arm stopped"

    def cycle(self, now_s: float) -> None:
        """One turn of its guard."""
        if not self.runs(now_s):
            return
        if self.hung_until_s > float("-inf"):
            self._wakes(now_s)
        news, self._news = self._news, ""
        if news or self.heard is None or now_s - self.heard_s > SILENCE_S or self.heard.unsafe:
            self.stop("peer", counts=False)
        if self.near and self.claims and self.rolling and self.occupied(now_s):
            self.stop("interlock", counts=self.armed)
        beat = self.beat()
        if beat != self.told or self.world.clock.cycle % BEAT_CYCLES == 0:
            self._tell(beat, now_s)

    def _wakes(self, now_s: float) -> None:
        held_s = now_s - self.told_s
        self.hung_until_s, inbox = float("-inf"), self._inbox
        self._inbox = []
        for packet in inbox:
            self.hears(packet, now_s)
        if held_s > LATE_LIMIT_S:
            self.stop("loop_late", counts=self.armed)

    def _tell(self, beat: Beat, now_s: float) -> None:
        self.told, self.told_s = beat, now_s
        if now_s <= self.late_until_s:
            self.world.at(now_s + self.late_s, lambda: self.world.to_arm(beat, self.world.clock.now_s))
        else:
            self.world.to_arm(beat, now_s + BEAT_AT_S)

    def stop(self, cause: str, counts: bool) -> None:
        """It stops; what began with it is counted."""
        if counts:
            self.stops, self.cause = self.stops + 1, cause
        if self.armed:
            self.armed = False
            self._brake()
            self._in(self._between(REARM_S), self._rearm)

    def _rearm(self) -> None:
        now_s = self.world.clock.now_s
        if not self.alive or self.armed:
            return
        heard = self.heard is not None and now_s - self.heard_s <= SILENCE_S and not self.heard.unsafe
        if self.runs(now_s) and heard and self.rested and not self.unsafe:
            self.armed = True
        else:
            self._in(self._between(REARM_S), self._rearm)

    # --- the process -----------------------------------------------------------------------------------------------
    def kill(self) -> None:
        """Its guard is gone; the vehicle goes on to where it was sent."""
        self.alive = self.armed = False

    def start(self) -> None:
        """A new one, not armed; what the vehicle does is not known to rest yet."""
        if self.alive:
            return
        self._start(armed=False)
        if not self.rolling:
            self.rested = False
            self._forget()
            self._plan(self._idle, IDLE_S)
        self._in(self._between(REARM_S), self._rearm)

    def hang(self, seconds: float) -> None:
        """Its process is stopped by the system for so long."""
        self.hung_until_s = self.world.clock.now_s + seconds
