"""Claims: the promises of decisions and plans that Ganeti does not show yet, in memory and in the ledger."""
