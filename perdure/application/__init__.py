"""Use cases, the loop, and the ports that they need."""
