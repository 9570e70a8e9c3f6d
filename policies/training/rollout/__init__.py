"""Episodes: who drives (`actor`), what came of it (`fragment`, `outcome`), where they run (`hosts`, `pools`).

Law of this folder: numpy and the simulator, no torch. An episode is a function of its environment, its seed and its
actions, bit for bit; so what runs where, in how many processes, on how many machines, and what was killed in between
changes no result. Lower modules do not know higher ones: actor and fragment <- hosts <- pools.
"""
