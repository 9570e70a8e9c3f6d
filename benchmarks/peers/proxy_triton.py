"""Between our client and Triton: passes every call on, byte for byte, and alters `ModelInfer` replies as a fault asks.

Triton labels a reply with its request's id, so no model could answer under another; a proxy can. Not used where
latency is measured.
"""
from __future__ import annotations

import argparse
from concurrent import futures
from pathlib import Path

import grpc
import numpy as np
from tritonclient.grpc import service_pb2

from benchmarks.peers.faults import Injector
from benchmarks.peers.side import end_with_parent

_INFER = "/inference.GRPCInferenceService/ModelInfer"


def _with_nan(reply: service_pb2.ModelInferResponse) -> service_pb2.ModelInferResponse:
    altered = service_pb2.ModelInferResponse()
    altered.CopyFrom(reply)
    for i, raw in enumerate(reply.raw_output_contents):
        altered.raw_output_contents[i] = np.full(len(raw) // 4, np.nan, dtype="<f4").tobytes()
    return altered


def _relabel(
    content: service_pb2.ModelInferResponse, label: service_pb2.ModelInferResponse
) -> service_pb2.ModelInferResponse:
    altered = service_pb2.ModelInferResponse()
    altered.CopyFrom(content)
    altered.id = label.id
    return altered


class Proxy(grpc.GenericRpcHandler):
    """Unary calls to another server; what that one fails with, the caller gets."""

    def __init__(self, upstream: str, fault_file: Path | None) -> None:
        self._channel = grpc.insecure_channel(upstream)
        self._inject = Injector(fault_file, _with_nan, _relabel)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        call = self._channel.unary_unary(details.method)

        def forward(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                reply = call(request, timeout=context.time_remaining())
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            if details.method != _INFER:
                return reply
            return self._inject(service_pb2.ModelInferResponse.FromString(reply)).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(forward)


def serve(address: str, upstream: str, fault_file: Path | None) -> grpc.Server:
    """Start a proxy on `address` (host:port) for `upstream`."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), handlers=[Proxy(upstream, fault_file)])
    if server.add_insecure_port(address) == 0:
        raise RuntimeError(f"{address}: cannot listen")
    server.start()
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="host:port of Triton's gRPC")
    parser.add_argument("--fault-file", type=Path)
    options = parser.parse_args()
    end_with_parent()
    serve(f"{options.host}:{options.port}", options.upstream, options.fault_file).wait_for_termination()
