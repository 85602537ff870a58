"""Synchronisation: the daemon's model of the cluster, and the polls that keep the model up to date."""
