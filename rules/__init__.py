"""Data: the rules files that are shipped, one an accelerator, and the shared library in `std`. Read, never run."""
