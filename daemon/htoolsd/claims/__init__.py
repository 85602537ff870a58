"""Claims: what decisions and plans have promised and Ganeti does not show yet, and when a promise ends."""
