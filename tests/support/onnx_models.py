"""Small policies in ONNX, written byte by byte, so that tests can have any model a trainer could hand over by mistake.

The graph is `reshape(f((observation - mean) / std @ weights + bias))`. Field numbers: onnx.proto3.
"""
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from steadyhand_policies import contract as contracts
from steadyhand_policies import repository
from steadyhand_policies.engine import open_session

FLOAT, INT64 = 1, 7
GOOD = dict(opset=17, function="Tanh", declared=(8, 5), shaped=(8, 5))


def varint(n: int) -> bytes:
    out = bytearray()
    while True:
        n, low = n >> 7, n & 0x7F
        out.append(low | (0x80 if n else 0))
        if not n:
            return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, content: bytes | str) -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def tensor(name: str, array: np.ndarray) -> bytes:
    kind = FLOAT if array.dtype == np.float32 else INT64
    dims = b"".join(number(1, d) for d in array.shape)
    return dims + number(2, kind) + message(8, name) + message(9, array.tobytes())


def value(name: str, dims: tuple[int, ...]) -> bytes:
    shape = message(1, message(2, "batch")) + b"".join(message(1, number(1, d)) for d in dims)
    return message(1, name) + message(2, message(1, number(1, FLOAT) + message(2, shape)))


def node(kind: str, inputs: tuple[str, ...], output: str) -> bytes:
    return b"".join(message(1, i) for i in inputs) + message(2, output) + message(3, output) + message(4, kind)


def model(
    mean: np.ndarray, std: np.ndarray, weights: np.ndarray, bias: np.ndarray, opset: int = 17, function: str = "Tanh",
    declared: tuple[int, int] = (8, 5), shaped: tuple[int, int] = (8, 5),
) -> bytes:
    """`declared`: shape that the output states; `shaped`: that it has."""
    nodes = [
        node("Sub", ("observation", "mean"), "centred"), node("Div", ("centred", "std"), "normal"),
        node("MatMul", ("normal", "weights"), "product"), node("Add", ("product", "bias"), "sum"),
        node(function, ("sum",), "bounded"), node("Reshape", ("bounded", "shape"), "actions"),
    ]
    arrays = {"mean": mean, "std": std, "weights": weights, "bias": bias}
    tensors = [tensor(n, np.ascontiguousarray(a, dtype=np.float32)) for n, a in arrays.items()]
    tensors.append(tensor("shape", np.array([-1, *shaped], dtype=np.int64)))
    graph = b"".join(message(1, n) for n in nodes) + message(2, "policy") + b"".join(message(5, t) for t in tensors)
    graph += message(11, value("observation", (len(mean),))) + message(12, value("actions", declared))
    return number(1, 8) + message(2, "tests") + message(7, graph) + message(8, message(1, "") + number(2, opset))


def weights_of(seed: int, outputs: int = 40, inputs: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Of a policy that looks; every seed another."""
    rng = np.random.default_rng(seed)
    return 0.2 * rng.standard_normal((inputs, outputs)), 0.2 * rng.standard_normal(outputs)


def write_version(
    folder: Path, weights: np.ndarray, bias: np.ndarray, golden: bool = True, change=lambda contract: contract, **graph
) -> contracts.PolicyContract:
    """`model.onnx` and its contract: the shipped one's with this model's hash and (with `golden`) answers, sealed anew.

    `change` is applied before the seal: a trainer that states something wrong.
    """
    shipped = contracts.load(repository.policy_files().contract)
    statistics = shipped.normalisation
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(model(np.array(statistics.mean), np.array(statistics.std), weights, bias, **GOOD | graph))
    canary = shipped.canary
    if golden:
        batch = np.float32(canary.observation)[None]
        answer = open_session(path).run(None, {contracts.INPUT_NAME: batch})[0][0]
        canary = replace(canary, actions=tuple(tuple(float(v) for v in row) for row in answer))
    contract = replace(shipped, model_sha256=contracts.file_hash(path), canary=canary)
    contract = contracts.seal(change(contract))
    (folder / "contract.json").write_text(contracts.dump(contract))
    return contract


def repository_with(folder: Path, *seeds: int) -> Path:
    """A repository whose versions 1, 2, ... are policies of these seeds; None takes the shipped one."""
    import shutil

    target = folder / repository.PICK_PLACE
    target.mkdir(parents=True)
    shutil.copy(repository.policy_files().config, target)
    for k, seed in enumerate(seeds, start=1):
        if seed is None:
            shutil.copytree(repository.DEFAULT_REPOSITORY / repository.PICK_PLACE / "1", target / str(k))
        else:
            write_version(target / str(k), *weights_of(seed))
    return folder


def edit(path: Path, change, reseal: bool = True) -> None:
    """Change the decoded JSON of a contract in place."""
    raw = json.loads(path.read_text())
    change(raw)
    if reseal:
        raw["sha256"] = contracts.content_hash(contracts.parse(raw))
    path.write_text(json.dumps(raw))
