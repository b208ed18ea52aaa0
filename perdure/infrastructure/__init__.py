"""Adapters: the event store, PostgreSQL, models, the command line."""
