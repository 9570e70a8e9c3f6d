"""Policies: the contract a model carries, and the ways to ask it (Triton, in-process ONNX, fallback between them).

Law of this folder: imports the core only; SDKs (tritonclient, onnxruntime) are imported late. Nothing here knows ROS,
the simulator or the robot. Every call takes a deadline; a reply after its deadline is never used.
"""
