"""Events of runs in the `eventsourcing` library."""
