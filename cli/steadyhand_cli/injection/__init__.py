"""Faults on the real processes of a running graph, measured from outside.

The law of this folder: nothing here is part of the product's motion. It kills, freezes, delays, floods and cuts what
runs, from outside, and believes only what the controller's own port and the simulated plant show. What a fault shall
lead to stands in one table (`table`), before it is tried. The controller is emulated, and every result says so.
"""
