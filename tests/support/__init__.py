"""Helpers of the tests: slots, and real processes (controller, guard, graph). Nothing in the product imports this."""
