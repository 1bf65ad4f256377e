"""From tagged programs to programs that call delegates, and the backends that make and run those."""
