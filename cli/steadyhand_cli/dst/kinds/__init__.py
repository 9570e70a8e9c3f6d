"""What each fault does, by the layer that it strikes.

Law of this folder: every function here is the `apply` of a row of `faults.TABLE`, or makes one; names and rates stand
there. It returns False when nothing was there to strike. Nothing else in the simulator disturbs anything.
"""
