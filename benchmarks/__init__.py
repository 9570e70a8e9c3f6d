"""Benchmarks: each module has `run(args)` and writes `out/bench/<name>.json`; the runs quoted in the documentation are
kept in `results/`. Timings run alone on the machine, under one lock; long ones resume from what they have written.
"""
