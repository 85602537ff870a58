"""The daemon on the Ganeti master that answers iallocator requests, and its command-line client."""
