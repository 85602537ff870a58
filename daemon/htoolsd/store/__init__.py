"""The store: the ledger in a database, its rows as plain data, and the threads that use it."""
