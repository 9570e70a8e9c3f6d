"""Other people's ways to serve a policy, run as their own documentation says, to be measured beside ours.

Law of this folder: a development extra; nothing of Steadyhand imports it but `benchmarks/policy_peers.py` and tests.
`client_*` and `server_*` run in the environment of the peer that they name (`make setup-peers`); what both sides share
(`accounting`, `faults`, `loop`, `model`, `scene`, `side`) needs numpy and the standard library only, ONNX Runtime in
`model` excepted. No line of a peer is copied: what is here calls its public package, or, where there is none to be had,
speaks its documented protocol.
"""
