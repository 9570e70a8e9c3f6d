"""The parameter services of a node, which refuse what rclpy would raise for: an exception in a callback ends a node.

rclpy reads a parameter of an unknown type, or of a name that is none, with an exception that nobody catches. This
module can go when rclpy answers such requests.
"""
from __future__ import annotations

from rcl_interfaces.msg import SetParametersResult
from rclpy import parameter_service

REASON_MAX = 200


class ParameterService(parameter_service.ParameterService):
    """Give the node `start_parameter_services=False` and then one of these."""

    def _set_parameters_callback(self, request, response):
        for wanted in request.parameters:
            one = type(request)(parameters=[wanted])
            try:
                response.results += super()._set_parameters_callback(one, type(response)()).results
            except Exception as error:  # rclpy raises several kinds; each means that the request was wrong
                response.results.append(_refused(error))
        return response

    def _set_parameters_atomically_callback(self, request, response):
        try:
            return super()._set_parameters_atomically_callback(request, response)
        except Exception as error:  # as above
            response.result = _refused(error)
            return response

    def _get_parameters_callback(self, request, response):
        return self._read(super()._get_parameters_callback, request, response)

    def _get_parameter_types_callback(self, request, response):
        return self._read(super()._get_parameter_types_callback, request, response)

    def _describe_parameters_callback(self, request, response):
        return self._read(super()._describe_parameters_callback, request, response)

    def _list_parameters_callback(self, request, response):
        return self._read(super()._list_parameters_callback, request, response)

    @staticmethod
    def _read(callback, request, response):
        """An empty answer says that there is no such parameter."""
        try:
            return callback(request, response)
        except Exception:  # as above
            return type(response)()


def _refused(error: Exception) -> SetParametersResult:
    return SetParametersResult(successful=False, reason=f"{type(error).__name__}: {error}"[:REASON_MAX])
