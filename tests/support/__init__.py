"""Helpers of the tests: slots and graphs of real processes. Nothing in the product imports this."""
