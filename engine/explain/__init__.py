"""Why nodes were left, what would change it, and pages that show it."""
