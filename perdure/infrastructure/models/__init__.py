"""Models behind the model port."""
