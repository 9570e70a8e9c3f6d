"""A simulated automated guided vehicle that speaks VDA 5050 as a vehicle. It is simulated hardware, never a real one.

Law of this folder: decisions (order book, actions, follower, localisation, vehicle) are pure: they take time as an
argument and return data. Only `mqtt_link`, `fleet` and `main` know a socket or a clock. The vehicle drives on its own
estimate, never on ground truth; truth leaves through the score socket of the vehicle's process.
"""
