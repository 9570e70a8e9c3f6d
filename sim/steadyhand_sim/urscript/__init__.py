"""Interpreter of URScript, as the emulated controller runs it: text -> tree -> threads that advance one cycle a tick.

Law of this folder: the language and nothing else. No sockets, no clock, no robot: motion, registers and I/O are
functions injected by the controller. What is not understood is refused loudly with its line, never skipped.

    machine = Machine(source, {"movej": movej, "get_steptime": get_steptime, ...}, steptime_s=0.008)
    machine.tick()                  # once per controller cycle; never blocks
    machine.state                   # State.RUNNING, PAUSED, FINISHED, HALTED, KILLED or FAILED
    machine.error                   # ScriptError (with .line) when FAILED

**Builtins** are ordinary Python functions. Their parameters are positional and named as in the script manual, with the
manual's defaults: `def servoj(q, a=0, v=0, t=0.002, lookahead_time=0.1, gain=300)`. Their signature is the arity that
is checked, and scripts may pass arguments by name. They get int, float, bool, str, list and `Pose` (a list of six
floats that is not a list of joints) and return one of these, None, or a `Wait`. To refuse an argument, raise
`ScriptError`, ValueError or TypeError: the program fails with that message and the line of the call. Annotate the
return type: a function annotated as returning something else than Wait or Any is called without the cost of one that
may wait.

**Wait** consumes time: the calling thread goes on in the first later cycle in which `done()` is true.

    return Wait(lambda: robot.at_target(q))                          # a blocking motion
    return Wait(lambda: True)                                        # exactly one cycle, as sync()
    return Wait(lambda: robot.settled(), result=lambda: robot.q())   # gives a value when done

`done` is polled once per cycle, in `tick()`, and not while paused. `cancel`, when given, is called once if the waiting
thread is killed or the program ends meanwhile.
"""
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.machine import Machine, State, is_strict_program
from steadyhand_sim.urscript.values import Pose, Wait

__all__ = ["Machine", "Pose", "ScriptError", "State", "Wait", "is_strict_program"]
