"""The state model of the controller program against the program itself, over random register traces."""
import random

import numpy as np
import pytest

from steadyhand_cli.dst.program import Inputs, Program
from steadyhand_firmware_bridge import urscript
from tests.unit.controller_program_rig import TOKEN, Rig

STOPPED = 3  # the first state that is an end


def package(rng, rig, k):
    """One cycle's packages: mostly the guard's, now and then anything."""
    if rng.random() < 0.06:
        return  # silence
    count = rng.choices([1, 2, 3, 5, 6], [90, 5, 2, 1, 0.3])[0]
    for _ in range(count):
        q = [goal + rng.uniform(-0.002, 0.002) for goal in rig.target]
        command = rng.choices([0, 1, 2, 3], [8, 90, 0.3, 0.2])[0]
        token = TOKEN if rng.random() > 0.002 else TOKEN + rng.randint(1, 9)
        if rng.random() < 0.004:
            q[rng.randrange(6)] += rng.choice([0.009, 0.0101, 0.03, 0.032, -0.05, float("nan"), float("inf")])
        rig.send(command=command, q=q, sequence=k, token=token)
    if rng.random() < 0.003:
        rig.int_in[urscript.IN_HEARTBEAT] = rng.choice([0, -5, 1, urscript.HEARTBEAT_MAX, urscript.HEARTBEAT_MAX + 1])


@pytest.mark.parametrize("steptime_s", [0.008, 0.002])
def test_model_and_program_say_the_same_in_every_cycle(steptime_s):
    rng, ends = random.Random(7), set()
    for trace in range(40):
        rig = Rig(steptime_s, urscript.ProgramConfig(first_heartbeat_timeout_s=0.3))
        rig.int_in[urscript.IN_HEARTBEAT] = rng.choice([0, 77, urscript.HEARTBEAT_MAX - 3])
        rig.int_in[urscript.IN_TOKEN] = rng.choice([0, TOKEN])
        model = Program(TOKEN, steptime_s, rig.config)
        silent_until = rng.choice([0, 0, 0, 5, 400])
        for k in range(450):
            if rng.random() < 0.004:
                silent_until = k + round(rng.choice([0.032, 0.040, 0.048]) / steptime_s)
            if k >= silent_until:
                package(rng, rig, k)
            inputs = Inputs(*rig.int_in[24:28], np.array(rig.float_in[24:30]))
            model.tick(inputs, np.array(rig.target))
            rig.tick()
            expected = [rig.int_out[i] for i in (24, 25, 26, 27)]
            assert [model.state, model.sequence, model.token, model.longest_silence] == expected, (trace, k)
            if model.goal_rad is not None:
                assert model.goal_rad.tolist() == rig.named("servoj")[-1][2][0], (trace, k)
            if model.state >= STOPPED:
                assert model.ended and len(rig.named("stopj")) == 1, (trace, k)
                ends.add(int(model.state))
                break
    assert ends == {3, 4, 5, 6, 7, 8, 9}, "the traces did not reach every end"
