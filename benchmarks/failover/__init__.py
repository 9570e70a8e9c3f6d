"""What `benchmarks/policy_failover.py` measures with: an arm led round and round, and everything that may go wrong.

Law of this folder: real processes only (server, supervisor, guard, emulated controller); nothing is counted here, only
done and written down. `driver` leads the arm as the agent does; `rig` starts and ends the processes; `troubles` are the
kinds. No trouble knows how it is judged.
"""
