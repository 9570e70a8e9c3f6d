"""A Triton backend named `onnxruntime`, for a server whose build carries the Python backend only.

Copied into the server's tree as `backends/onnxruntime/model.py`; runs in Triton's stub process, in the server's own
environment, so it imports nothing of Steadyhand. It serves a standard repository (`backend: "onnxruntime"`,
`1/model.onnx`), which therefore loads unchanged on a stock Triton with the compiled ONNX Runtime backend.

A bad request is answered with an error of its own; the other requests of its batch are served.
"""
import json
import os

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One model instance."""

    def initialize(self, args):
        """Load `model.onnx` of the version and compare its tensors with those that config.pbtxt states."""
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config.get("parameters", {}).items()}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(parameters.get("intra_op_thread_count", "1"))
        options.inter_op_num_threads = int(parameters.get("inter_op_thread_count", "1"))
        folder = os.path.join(args["model_repository"], args["model_version"])
        path = os.path.join(folder, config.get("default_model_filename") or "model.onnx")
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._batched = config["max_batch_size"] > 0
        self._inputs = _stated(config["input"])
        self._outputs = _stated(config["output"])
        for kind, stated, found in (
            ("input", self._inputs, self._session.get_inputs()),
            ("output", self._outputs, self._session.get_outputs()),
        ):
            self._compare(args["model_name"], kind, stated, {t.name: list(t.shape) for t in found})

    def execute(self, requests):
        """One response for each request, in order; a single ONNX run serves all well-formed ones."""
        responses = [None] * len(requests)
        feeds = {}
        for i, request in enumerate(requests):
            try:
                feeds[i] = self._feed(request)
            except ValueError as error:
                responses[i] = _refusal(str(error))
        for group in self._groups(feeds):
            self._serve(group, feeds, responses)
        return responses

    def _compare(self, model, kind, stated, found):
        if set(stated) != set(found):
            raise pb_utils.TritonModelException(
                f"{model}: config.pbtxt states {kind}s {sorted(stated)}, model.onnx has {sorted(found)}"
            )
        for name, (_, dims) in stated.items():
            shape = found[name][1:] if self._batched else found[name]
            fits = len(shape) == len(dims) and all(
                d == -1 or not isinstance(s, int) or s == d for s, d in zip(shape, dims)
            )
            if not fits:
                raise pb_utils.TritonModelException(
                    f"{model}: {kind} {name}: config.pbtxt states dims {dims}, model.onnx has {shape}"
                )

    def _feed(self, request):
        feed, rows = {}, None
        for name, (dtype, dims) in self._inputs.items():
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            if tensor is None:
                raise ValueError(f"input {name} is missing")
            array = tensor.as_numpy()
            if array.dtype != dtype:
                raise ValueError(f"input {name}: {array.dtype}, expected {dtype}")
            shape = array.shape[1:] if self._batched else array.shape
            if len(shape) != len(dims) or any(d not in (-1, s) for s, d in zip(shape, dims)):
                raise ValueError(f"input {name}: shape {array.shape}, expected dims {dims}")
            if self._batched and rows not in (None, array.shape[0]):
                raise ValueError(f"input {name}: {array.shape[0]} rows, other inputs have {rows}")
            rows = array.shape[0]
            feed[name] = array
        return feed

    def _groups(self, feeds):
        """Indices that may share a run: equal shapes behind the batch dimension; one by one without batching."""
        if not self._batched:
            return [[i] for i in feeds]
        groups = {}
        for i, feed in feeds.items():
            groups.setdefault(tuple(a.shape[1:] for a in feed.values()), []).append(i)
        return list(groups.values())

    def _serve(self, group, feeds, responses):
        names = list(self._outputs)
        joined = feeds[group[0]] if len(group) == 1 else {
            n: np.concatenate([feeds[i][n] for i in group]) for n in self._inputs
        }
        try:
            arrays = self._session.run(names, joined)
        except Exception as error:  # whatever the engine raises is answered; an escape would kill the stub
            for i in group:
                responses[i] = _refusal(f"onnxruntime: {error}")
            return
        if len(group) == 1:
            parts = [arrays]
        else:
            rows = [next(iter(feeds[i].values())).shape[0] for i in group]
            cuts = np.cumsum(rows)[:-1]
            parts = zip(*(np.split(a, cuts) for a in arrays))
        for i, part in zip(group, parts):
            responses[i] = pb_utils.InferenceResponse(
                [pb_utils.Tensor(n, np.ascontiguousarray(a)) for n, a in zip(names, part)]
            )


def _stated(entries):
    """name -> (numpy type, dims) of config.pbtxt's tensors."""
    return {
        e["name"]: (np.dtype(pb_utils.triton_string_to_numpy(e["data_type"])), [int(d) for d in e["dims"]])
        for e in entries
    }


def _refusal(message):
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(message))
