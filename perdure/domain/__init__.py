"""The model of a run: events, state and decisions. Pure: no I/O, no clock, no ids made here."""
