"""The master's side of VDA 5050: guides one vehicle through a broker, for the AGV's guard.

Law of this folder: all but `mqtt` and `agv` is pure (time is an argument, messages come and go as data); `mqtt`
moves packets and decides nothing; `agv` joins them to the contract `steadyhand.agv.Agv`. Nothing is released, resumed
or repeated because a connection came back: only what the guard asked for, in this arming.
"""
