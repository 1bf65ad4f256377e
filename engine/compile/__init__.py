"""Syntax tree to checked, executable rules."""
