"""Inputs that must not move anything, drawn from a seed. Each is invalid by construction; `kind` says how.

A mutation changes one field of a valid message to a value that no valid message may have. Changes that leave a message
valid (another trace id, a way-point moved by less than anybody forbids) are not made: they would prove nothing.
"""
from __future__ import annotations

from dataclasses import MISSING, replace
from typing import Any

import msgpack
import numpy as np

from steadyhand import ur5
from steadyhand.guard_protocol import MAX_PACKET, Arm, Beat, Chunk, Gripper, Heartbeat, Hello, Link, Stop, encode

WRONG_TYPES = (None, "x", -1.5, True, [], {}, [[]], {"a": 1}, 2**63, "\x00" * 40)
NOT_NUMBERS = (float("nan"), float("inf"), float("-inf"))


def pick(rng: np.random.Generator, values: tuple | list) -> Any:
    """One of the values, unchanged in type."""
    return values[int(rng.integers(len(values)))]


def body(message: Any) -> dict:
    """Fields of a message."""
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


def packed(kind: Any, fields: Any) -> bytes:
    """A packet of whatever content; longer ones than a socket takes are cut."""
    return msgpack.packb([kind, fields], use_bin_type=True)[: MAX_PACKET + 1]


def wrong_type(rng: np.random.Generator, message: Any) -> tuple[str, bytes]:
    """One field of another type, missing, renamed, or one too many."""
    fields = body(message)
    name = pick(rng, list(fields))
    how, annotation = int(rng.integers(4)), message.__dataclass_fields__[name].type
    kind = type(message).__name__.lower()
    field = message.__dataclass_fields__[name]
    required = field.default is MISSING and field.default_factory is MISSING
    if how == 0 and required:
        del fields[name]
    elif how == 1:
        fields[f"{name}_"] = fields[name]
    else:
        fits = {"str": str, "bool": bool, "dict": dict, "int": int, "float": (int, float)}
        bad = [v for v in WRONG_TYPES if not _may_be(annotation, v, fits)]
        fields[name] = pick(rng, bad)
    return f"{kind}.{name}", packed(kind, fields)


def _may_be(annotation: str, value: Any, fits: dict) -> bool:
    if annotation in ("int", "float"):
        if isinstance(value, bool) or not isinstance(value, fits[annotation]):
            return False
        return annotation == "float" or value < 2**63
    if annotation.startswith("list"):
        return isinstance(value, list)
    return isinstance(value, fits[annotation])


def mutated_chunk(rng: np.random.Generator, valid: Chunk, old_tokens: list[int]) -> tuple[str, bytes]:
    """A chunk that would be accepted but for one field."""
    how = int(rng.integers(9))
    q = [list(row) for row in valid.q_rad]
    row, joint = int(rng.integers(len(q))), int(rng.integers(ur5.DOF))
    if how == 0:
        flipped = valid.token ^ (1 << int(rng.integers(31)))
        token = pick(rng, [flipped, 0, -1, 2**63 - 1, -(2**63), *old_tokens])
        return "chunk.token", encode(replace(valid, token=token))
    if how == 1:
        later, earlier = valid.state_seq + int(rng.integers(1, 1000)), valid.state_seq - int(rng.integers(1, 1000))
        seq = pick(rng, [-1, 2**62, later, earlier])
        return "chunk.state_seq", encode(replace(valid, state_seq=seq))
    if how == 2:
        stamp = pick(rng, [valid.state_stamp_s + pick(rng, [1, -1]) * 10.0 ** rng.uniform(-5, 6), 0.0, *NOT_NUMBERS])
        return "chunk.state_stamp_s", encode(replace(valid, state_stamp_s=stamp))
    if how == 3:
        source = pick(rng, ["", "Policy", "policy ", "root", "p" * 4000, "\u0000"])
        return "chunk.source", encode(replace(valid, source=source))
    if how == 4:
        names = list(valid.joint_names)
        a, b = rng.choice(ur5.DOF, 2, replace=False)
        misspelt = names[:a] + [names[a] + "_"] + names[a + 1:]
        changed = pick(rng, [names[:-1], names + ["x"], [], [names[0]] * 6, misspelt])
        if rng.random() < 0.4:
            names[a], names[b] = names[b], names[a]
            changed = names
        return "chunk.joint_names", encode(replace(valid, joint_names=changed))
    if how == 5:
        period = pick(rng, [0.0, -0.05, 1e-9, 0.0199, 0.101, 1e300, *NOT_NUMBERS])
        return "chunk.period_s", encode(replace(valid, period_s=period))
    if how == 6:
        far = q[row][joint] + pick(rng, [-1, 1]) * rng.uniform(0.6, 6.0)
        q[row][joint] = pick(rng, [*NOT_NUMBERS, 1e308, 7.0, -7.0, far])
        return "chunk.q_rad value", encode(replace(valid, q_rad=q))
    if how == 7:
        ragged = q[:row] + [q[row][:-1]] + q[row + 1:]
        q = pick(rng, [[], [[]], q * 9, [r[:-1] for r in q], [r + [0.0] for r in q], ragged])
        return "chunk.q_rad shape", encode(replace(valid, q_rad=q))
    return wrong_type(rng, valid)


def mutated_other(rng: np.random.Generator, token: int, credential: str) -> tuple[str, bytes]:
    """Gripper, arming, heartbeat, link, beat, stop or hello with one wrong field. None of them may do anything."""
    how = int(rng.integers(5))
    if how == 0:
        return "gripper.token", encode(Gripper(pick(rng, [token ^ (1 << int(rng.integers(31))), 0, -1]), 0.04, "g"))
    if how == 1:
        return "gripper.width_m", encode(Gripper(token, pick(rng, [*NOT_NUMBERS, -0.001, 0.0851, 1e9]), "g"))
    if how == 2:
        at = int(rng.integers(len(credential)))
        other = chr(33 + (ord(credential[at]) - 33 + int(rng.integers(1, 90))) % 94)
        wrong = credential[:at] + other + credential[at + 1:]
        secret = pick(rng, [wrong, "", credential[:-1], credential + "0", credential.upper() + "é", "\x00"])
        return "arm.credential", encode(Arm(pick(rng, ["auto", "manual", "recover"]), secret, "r"))
    if how == 3:
        mode = pick(rng, ["", "AUTO", "ARMED_AUTO", "auto ", "free", "x" * 4000])
        return "arm.mode", encode(Arm(mode, credential, "r"))
    return wrong_type(rng, pick(rng, [
        Gripper(token, 0.04, "g"), Arm("auto", credential, "r"), Heartbeat("camera", True), Link("panel", True, "r"),
        Beat("other", 1, 1, "", ""), Stop("panel", "", "r"), Hello("x", True, True),
    ]))


def noise(rng: np.random.Generator, valid: bytes) -> tuple[str, bytes]:
    """Bytes that are no message: random, cut short, of unknown kind, nested, huge."""
    how = int(rng.integers(6))
    if how == 0:
        return "noise.random", rng.bytes(int(rng.integers(1, 200)))
    if how == 1:
        return "noise.cut", valid[: int(rng.integers(1, len(valid)))]
    if how == 2:
        return "noise.kind", packed(pick(rng, ["", "chunks", "CHUNK", 7, None, [], "x" * 300]), {"token": 1})
    if how == 3:
        return "noise.nested", b"\x91" * int(rng.integers(1, 3000))
    if how == 4:
        fields = {"x" * int(rng.integers(1, 50)): float(k) for k in range(int(rng.integers(1, 300)))}
        return "noise.map", packed("chunk", fields)
    # heads of an array, a map, bytes and an extension that announce gigabytes
    heads = [b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01"]
    return "noise.length", pick(rng, heads) + rng.bytes(int(rng.integers(0, 60)))
