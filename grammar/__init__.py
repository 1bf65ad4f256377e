"""Text to tree: the rules language's grammar, its syntax tree, and its diagnostics. Knows nothing of torch."""
