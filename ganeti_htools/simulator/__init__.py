"""The simulator: a stand-in for Ganeti's master daemon, on a cluster from a file."""
