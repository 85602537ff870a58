"""What can be asked of the daemon: declared in :mod:`.methods`, carried out in one module per subject."""
