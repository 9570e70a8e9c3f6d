"""An emulated Universal Robots controller: its ports, its program runner, its motion primitives, over any `Plant`.

Law of this folder: single-threaded; pure modules (`motion`, `modes`, `rtde_fields`, `controller`) take no clock and no
socket, the servers only move bytes, `realtime` alone owns time. Every emulated behaviour is traced to a document or a
recording in `docs/emulated_controller.md`; nothing here is a real robot.
"""
