"""Stop plug-ins: a button, a line or a key becomes a stop request on the guard's own stop channel.

Law of this folder: speaks to `stop.sock` and to nothing else; never arms, never moves. What cannot be read is a stop,
and so is the end of the process, by an error too. While its input asks for a stop the request is repeated, so that
nobody can re-arm under a pressed button. These are software stops: they do not replace the wired emergency stop, and a
killed plug-in asks for nothing any more (run it under the launch file, which starts it again).
"""
