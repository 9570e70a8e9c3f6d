"""What the vehicle refuses and reports, in one table: the name of each error in VDA 5050 2.1 and 3.0, and its level.

Sources: 2.1.0 sections 6.6.3.2, 6.6.4, 6.9, 6.10.5; 3.0 sections 6.1.3, 6.1.4, 6.2.1, 6.6.5. 2.1 names fewer than it
describes: an update that does not fit is its "orderUpdateError", what cannot be done its "orderError".
"""
from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Kind(enum.Enum):
    """(name in 2.1, level in 2.1, name in 3.0, level in 3.0)."""

    MALFORMED = ("validationError", "WARNING", "VALIDATION_FAILURE", "WARNING")
    UNSUPPORTED = ("orderError", "WARNING", "UNSUPPORTED_PARAMETER", "CRITICAL")
    ORDER_ACTION = ("orderError", "WARNING", "INVALID_ORDER_ACTION", "WARNING")
    OUTDATED_UPDATE = ("orderUpdateError", "WARNING", "OUTDATED_ORDER_UPDATE", "WARNING")
    SAME_UPDATE = ("orderUpdateError", "WARNING", "SAME_ORDER_UPDATE_ID", "WARNING")
    UPDATE_AFTER_CANCEL = ("orderUpdateError", "WARNING", "ORDER_UPDATE_FOLLOWING_CANCEL", "WARNING")
    NO_CONTINUATION = ("orderUpdateError", "WARNING", "ORDER_UPDATE_ERROR", "WARNING")
    OTHER_ORDER = ("orderUpdateError", "WARNING", "OTHER_ORDER_ACTIVE", "WARNING")
    START_TOO_FAR = ("noRouteError", "WARNING", "START_NODE_OUT_OF_RANGE", "WARNING")
    NO_ROUTE = ("noRouteError", "WARNING", "NO_ROUTE_TO_TARGET", "WARNING")
    UNKNOWN_MAP = ("orderError", "WARNING", "UNKNOWN_MAP_ID", "WARNING")
    NOT_AVAILABLE = ("orderError", "WARNING", "MOBILE_ROBOT_NOT_AVAILABLE", "WARNING")
    NO_ORDER_TO_CANCEL = ("noOrderToCancel", "WARNING", "NO_ORDER_TO_CANCEL", "WARNING")
    INSTANT_ACTION = ("instantActionError", "WARNING", "INVALID_INSTANT_ACTION", "WARNING")
    ACTION_FAILED = ("actionError", "WARNING", "ACTION_FAILED", "CRITICAL")
    LOCALISATION = ("localizationError", "FATAL", "LOCALIZATION_ERROR", "FATAL")
    OFF_PATH = ("pathDeviationError", "FATAL", "NODE_UNREACHABLE", "CRITICAL")
    BATTERY_LOW = ("batteryLow", "WARNING", "BATTERY_LOW", "URGENT")
    BATTERY_EMPTY = ("batteryEmpty", "FATAL", "BATTERY_EMPTY", "FATAL")
    OVERLOAD = ("overload", "FATAL", "OVERLOAD", "FATAL")


@dataclass(frozen=True)
class Refusal:
    """One entry of `errors`. References are (key, value) as the standard names them: orderId, nodeId, actionId, ..."""

    kind: Kind
    text: str
    references: tuple[tuple[str, str], ...] = ()

    def message(self, version: str) -> Mapping[str, object]:
        """The error object of a state message."""
        at = 0 if version.startswith("2.") else 2
        return {
            "errorType": self.kind.value[at],
            "errorLevel": self.kind.value[at + 1],
            "errorDescription": self.text[:500],
            "errorReferences": [{"referenceKey": k, "referenceValue": v[:200]} for k, v in self.references],
        }
