"""An index as tools for assistants, over the Model Context Protocol: read-only."""
