"""Deterministic simulation testing: the real guard, in virtual time, against every fault that we can name.

Law of this folder: nothing here reads a clock, a socket or an unseeded random number, so that a seed is a run. The
guard under test is the product's own code; what stands round it (plant, controller program, links, processes) is
modelled, and each model that replaces product code is held to it by a test: the program by random register traces, the
block advance by bit-for-bit comparison. `checker` imports nothing of gate and guard: it judges from the wire.
"""
