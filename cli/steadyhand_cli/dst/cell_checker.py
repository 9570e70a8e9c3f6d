"""Judges the arm's guard towards the guard of a vehicle beside it (I13), from the beats that pass between them.

A beat that says that the other one stopped, was started anew or has a robot whose safety acted stops this arm, and so
do 100 ms without one. What begins here is told; what the other one caused, or an orderly disarming, is not. The arm
says that it is where the two meet whenever it certainly is (measured, with kinematics of our own), will be (by the way-
points that were accepted) or may be (no measurement); and it does not begin to reach there while the other one claims
the place or is unheard. Imports nothing of gate, guard and zone.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from steadyhand.guard_protocol import Beat, Chunk
from steadyhand.protocols import Feedback
from steadyhand_cli.dst.body import depth_m

PEER_LIMIT_S = 0.100
FEEDBACK_LIMIT_S = 0.040
CERTAIN_M, CERTAIN_BY_PLAN_M, CERTAIN_BEHIND_M = 0.02, 0.05, 0.10  # deep: as measured; of way-points; of set-points
HAND_OVER_S = 0.25  # from here on the set-points follow the way-points
TOGETHER_S = 0.3  # arm and vehicle move in one place: until each has heard of the other, and its silence
SLOW_RAD_S = 0.05  # a chunk that ends slower than this ends where its last way-point is
UNTOLD_CYCLES = 2  # it tells at least at every second one
STRIDE, BLOCK_STRIDE = 8, 16  # cycles between two looks at where the arm is
BY_OTHERS = frozenset({"peer", "disarmed", "started"})  # causes that are no stop that begins here


class CellChecker:
    """Fed in order of time. `partner` is the name of the other guard, `box_m` where the two meet, in base_link."""

    def __init__(
        self, report: Callable[[str, float, str], None], must_stop: Callable[[float, str], None], period_s: float,
        partner: str, box_m: tuple[float, ...],
    ):
        self._report, self._must_stop = report, must_stop
        self.period_s, self.partner, self.box_m = period_s, partner, box_m
        self.boots: set[int] = set()  # of the guards so far
        self.reset()

    def reset(self) -> None:
        """A new guard: it has heard and told nothing."""
        self.heard: Beat | None = None
        self.heard_s = self.trouble_s = float("-inf")  # newest beat; when it last was a reason to stop
        self.told: Beat | None = None
        self.untold = 0  # cycles since then
        self.cycle_s = float("-inf")  # its last cycle
        self.least = 0  # number of stops that the next beat tells at least
        self.armed_stops = 0  # told when it was last seen armed
        self.reach_until_s = float("-inf")  # by the accepted way-points, the arm is in the box until then
        self.together_s = 0.0
        self._cycles = 0

    # --- what it hears ---------------------------------------------------------------------------------------------
    def hears(self, now_s: float, beat: Beat) -> None:
        """A readable beat has reached the guard."""
        if beat.guard != self.partner:
            return
        before, self.heard, self.heard_s = self.heard, beat, now_s
        if beat.unsafe:
            self.trouble_s = now_s
        if before is None or (before.boot, before.stops) == (beat.boot, beat.stops):
            return
        self.trouble_s = now_s
        self._must_stop(now_s, "the other guard was started anew" if before.boot != beat.boot else "the other stopped")

    def causes(self, now_s: float, grace_s: float) -> list[str]:
        """What of the other guard forbids motion."""
        if self.heard is None:
            return ["the other guard was never heard of"]
        if now_s - self.heard_s > PEER_LIMIT_S + grace_s:
            return ["the other guard is silent"]
        return [f"the other guard's robot: {self.heard.unsafe}"] if self.heard.unsafe else []

    def _claimed(self, now_s: float) -> str:
        """Why nobody may reach into the box; empty when it may be."""
        if self.heard is None or now_s - self.heard_s > PEER_LIMIT_S + self.period_s:
            return "the other guard is silent"
        return self.heard.zone

    # --- what it does ----------------------------------------------------------------------------------------------
    def stop(self) -> None:
        """A stop request has reached it: that is told, whatever it does."""
        self.least = (self.told.stops if self.told is not None else 0) + 1

    def disarmed(self, now_s: float, causes: Iterable[str]) -> None:
        """It is seen to have stopped, and names these causes."""
        names = {cause.partition(":")[0] for cause in causes}
        self.reach_until_s = float("-inf")
        silent = now_s - self.heard_s > PEER_LIMIT_S - self.period_s
        well = not silent and self.heard is not None and not self.heard.unsafe
        since_s = self.cycle_s - 2 * self.period_s  # before its last cycle: it may have been held up since
        if "peer" in names and well and self.trouble_s < since_s:
            self._report("I9", now_s, "the cause of the stop is the other guard, which is heard and well")
        if not names & BY_OTHERS:
            self.least = max(self.least, self.armed_stops + 1)
        elif names <= BY_OTHERS and self.told is not None and self.told.stops != self.armed_stops:
            self._report("I13", now_s, f"a stop that the other guard caused is told as its own ({sorted(names)})")

    def accepted(self, now_s: float, chunk: Chunk, q_last_rad: np.ndarray | None) -> None:
        """A chunk (finite, well shaped) is to be followed; `q_last_rad` is the set-point before it."""
        q = np.asarray(chunk.q_rad, dtype=float)
        due_s = chunk.state_stamp_s + chunk.period_s * np.arange(1, len(q) + 1)
        depth, followed = depth_m(q, self.box_m), due_s > now_s + HAND_OVER_S
        certain = (depth > CERTAIN_BY_PLAN_M) & followed
        self.reach_until_s = float(due_s[certain].max()) if certain.any() else float("-inf")
        claimed = self._claimed(now_s)
        if not claimed or not certain.any():
            return
        outside = q_last_rad is not None and depth_m(q_last_rad[None], self.box_m)[0] < -CERTAIN_M
        ends_slow = len(q) > 1 and np.abs(q[-1] - q[-2]).max() < SLOW_RAD_S * chunk.period_s
        has_left = np.logical_or.accumulate((depth < -CERTAIN_BY_PLAN_M) & followed)
        if outside or (certain & has_left).any() or certain[-1] and ends_slow:
            self._report("I13", now_s, f"begins to reach over the vehicle although: {claimed}")

    def tells(self, now_s: float, beat: Beat) -> None:
        """It sends a beat."""
        before, self.told, self.untold = self.told, beat, 0
        if before is not None and (beat.boot != before.boot or beat.stops < before.stops):
            self._report("I13", now_s, f"boot {beat.boot}, stops {beat.stops} after {before.boot}, {before.stops}")
        if before is None and beat.boot in self.boots:
            self._report("I13", now_s, f"started anew, it tells the boot {beat.boot} of a guard before it")
        self.boots.add(beat.boot)
        if beat.stops < self.least:
            self._report("I13", now_s, f"a stop that began here is not told: {beat.stops} stops, not {self.least}")
        self.least = 0

    def cycle(self, now_s: float, armed: bool, at_rest: bool, measured: Feedback | None, age_s: float) -> None:
        """The end of a cycle, after its beat: is what it tells true? `age_s`: since the newest new measurement."""
        self._cycles, self.untold, self.cycle_s = self._cycles + 1, self.untold + 1, now_s
        told = self.told
        if told is None or self.untold > UNTOLD_CYCLES:
            return self._report("I13", now_s, "the other guard is told nothing")
        if armed:
            self.armed_stops = told.stops
        if age_s > FEEDBACK_LIMIT_S + self.period_s and not told.zone:
            self._report("I13", now_s, "it says that it is clear, and does not know where the arm is")
        if measured is None or age_s > FEEDBACK_LIMIT_S - self.period_s:
            return None
        unsafe = measured.safety_mode not in (1, 2)
        if unsafe != bool(told.unsafe):
            self._report("I13", now_s, f"safety mode {measured.safety_mode}, and it tells {told.unsafe!r}")
        if armed and now_s < self.reach_until_s - PEER_LIMIT_S and not told.zone:
            self._report("I13", now_s, "it says that it is clear, and is about to reach over the vehicle")
        if self._cycles % STRIDE == 0:
            self._where(now_s, armed, at_rest, measured)
        return None

    def _where(self, now_s: float, armed: bool, at_rest: bool, measured: Feedback) -> None:
        if not np.isfinite(measured.q_rad).all():
            if not self.told.zone:
                self._report("I13", now_s, "it says that it is clear, and does not know where the arm is")
            return
        depth = depth_m(measured.q_rad[None], self.box_m)[0]
        if depth > CERTAIN_M and not self.told.zone:
            self._report("I13", now_s, f"it says that it is clear, and is {depth:.2f} m over the vehicle")
        elif depth < -CERTAIN_M and at_rest and not armed and self.told.zone:
            self._report("I13", now_s, f"clear and at rest, it tells {self.told.zone!r}")

    def together(self, now_s: float, armed: bool, q_rad: np.ndarray | None) -> None:
        """Where the arm truly is while the vehicle truly rolls in the place that they share; None when it does not."""
        both = armed and q_rad is not None and depth_m(q_rad[None], self.box_m)[0] > CERTAIN_M
        self.together_s = self.together_s + self.period_s if both else 0.0
        if self.together_s > TOGETHER_S:
            self._report("I13", now_s, f"armed over a vehicle that has been rolling for {TOGETHER_S} s")
            self.together_s = 0.0

    # --- blocks ----------------------------------------------------------------------------------------------------
    def block(self, times_s: np.ndarray, q_rad: np.ndarray, heard_s: float, untold: int) -> None:
        """Cycles (n,) of set-points (n, 6), in which both told the same as before.

        `heard_s`: when the newest beat came, `untold`: cycles since and with the last one that went out.
        """
        self.heard_s, self.untold, self.cycle_s = heard_s, untold, float(times_s[-1])
        self._cycles += len(times_s)
        if self.told.zone:
            return
        if times_s[0] < self.reach_until_s - PEER_LIMIT_S:
            self._report("I13", float(times_s[0]), "it says that it is clear, and is about to reach over the vehicle")
        if (depth_m(q_rad[::BLOCK_STRIDE], self.box_m) > CERTAIN_BEHIND_M).any():
            self._report("I13", float(times_s[0]), "it says that it is clear, and is over the vehicle")
