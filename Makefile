# Placeholder until the set-up lands: see docs/design.md.
