"""PostgreSQL: the server, leases, the clock."""
