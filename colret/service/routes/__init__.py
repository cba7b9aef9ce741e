"""What is asked over HTTP, by subject."""
