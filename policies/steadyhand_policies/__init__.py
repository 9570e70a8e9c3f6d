"""Policies: what a model states of itself, the ways to ask it, and which version is asked.

Three layers, each importing only what stands before it: the contract and its checks (`contract_format`, `contract`,
`runtime_facts`, `onnx_file`, `probe`, `repository`); ways to ask one version (`engine`, `local_onnx`, `triton_*`,
`breaker`, `latency`, `chunking`, `fallback`, `checks`); which version serves (`comparison`, `release*`, `episodes`,
`member`, `shadow`, `live`).

Law of this folder: imports the core only; SDKs (tritonclient, onnxruntime) are imported late. Nothing here knows ROS,
the simulator or the robot. Every call takes a deadline; a reply after its deadline is never used. What disagrees with
its contract is refused by the name of the field, never mended.
"""
