"""What operators do, rightly and wrongly: stops, disarming, arming with and without a right to it."""
from __future__ import annotations

import random

from steadyhand.guard_protocol import Arm, Stop
from steadyhand_cli.dst.host import CREDENTIAL
from steadyhand_cli.dst.world import World


def disarm(world: World) -> None:
    world.operator.send(Arm("disarm", "", "d"))


def stop(world: World, rng: random.Random) -> bool:
    world.stop(Stop(rng.choice(["operator", "console", "topic", "service"]), "test"))
    return True


def command_stop(world: World, rng: random.Random) -> bool:
    world.operator.send(Stop("console", "", "s"))
    return True


def unreadable(world: World, rng: random.Random) -> bool:
    world.stop(rng.randbytes(rng.randint(0, 40)))
    return True


def stop_flood(world: World, rng: random.Random) -> bool:
    for _ in range(150):
        world.stop()
    return True


def stop_in_arming(world: World, rng: random.Random) -> bool:
    world.stop()
    for _ in range(3):
        world.at(world.clock.now_s + rng.uniform(0.4, 1.2), world.stop)
    return True


def wrong_credential(world: World, rng: random.Random) -> bool:
    world.operator.send(Arm("auto", rng.choice(["", "guess", CREDENTIAL[:-1], CREDENTIAL + "0"]), "w"))
    return True


def guessed_arm(world: World, rng: random.Random) -> bool:
    world.stop()
    for k in range(4):
        world.at(world.clock.now_s + 0.15 * (k + 2), lambda: world.operator.send(Arm("auto", "guess", "w")))
    return True


def arm_moving(world: World, rng: random.Random) -> bool:
    world.operator.send(Arm("auto", CREDENTIAL, "m"))
    return True


def arm_in_stop(world: World, rng: random.Random) -> bool:
    world.stop()
    for _ in range(3):
        world.at(world.clock.now_s + rng.uniform(0.005, 0.4), lambda: world.operator.send(Arm("auto", CREDENTIAL, "m")))
    return True


def arm_twice(world: World, rng: random.Random) -> bool:
    world.stop()
    for _ in range(2):
        world.at(world.clock.now_s + 0.9, lambda: world.operator.send(Arm("auto", CREDENTIAL, "t")))
    return True


def arm_unknown(world: World, rng: random.Random) -> bool:
    world.operator.send(Arm(rng.choice(["", "ARMED_AUTO", "\x00", "full speed"]), CREDENTIAL, "u"))
    return True


def disarmed(world: World, rng: random.Random) -> bool:
    disarm(world)
    return True


def arm_with_cause(world: World, rng: random.Random) -> bool:
    now_s, robot = world.clock.now_s, world.robot
    robot.safety_mode = 3

    def clear() -> None:
        robot.safety_mode = 1

    for delay_s in (0.7, 0.8, 0.9):
        world.at(now_s + delay_s, lambda: world.operator.send(Arm("auto", CREDENTIAL, "c")))
    world.at(now_s + 1.2, clear)
    return True
