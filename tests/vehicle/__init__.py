"""Processes of the vehicle: its guard, its broker, the simulated vehicle. They mostly wait, so they may run beside others."""
