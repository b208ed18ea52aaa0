"""What the application needs from the outside: one port a file."""
