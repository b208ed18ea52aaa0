"""A PostgreSQL server that starts when somebody needs it and stops when nobody does."""

from perdure.infrastructure.postgres.embedded.binaries import Binaries, find_binaries
from perdure.infrastructure.postgres.embedded.places import default_directory
from perdure.infrastructure.postgres.embedded.server import EmbeddedPostgres, remove

__all__ = ["Binaries", "EmbeddedPostgres", "default_directory", "find_binaries", "remove"]
