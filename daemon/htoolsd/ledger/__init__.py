"""The placement ledger: resource providers, what they have, and who has been promised what of it."""
