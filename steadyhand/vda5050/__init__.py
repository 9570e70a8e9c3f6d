"""VDA 5050 messages: what passes between an AGV (VDA 5050: mobile robot) and the master that guides it.

Law of this folder: no I/O but reading the packaged schemas; time is an argument. A message that is not valid by the
official schema of its version does not exist: it is neither taken nor sent. Both sides, guard and simulated vehicle,
use this one codec. Versions 2.1 and 3.0 go through the same code; where they differ, `dialect` says so.
Schemas: github.com/VDA5050/VDA5050, MIT (schemas/LICENSE.txt); 2.1.0 from tag 2.1.0, 3.0.0 from main of 2026-07-02
(commit 0b2ae43: files of the tag 3.0.0 are not valid JSON).
"""
