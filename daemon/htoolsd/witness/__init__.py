"""The witness: Ganeti's own iallocator beside ours, and what the comparison of both has found."""
