"""colret: late-interaction retrieval of document pages."""
