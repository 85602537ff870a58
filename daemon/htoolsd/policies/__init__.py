"""Policies: plans that the daemon makes by itself when conditions hold, and how far it may go with them."""
