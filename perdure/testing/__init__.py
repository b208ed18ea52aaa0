"""What users import into their own tests."""
