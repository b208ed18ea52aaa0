"""The ports in memory: for tests, and for runs that need not outlive their process."""
