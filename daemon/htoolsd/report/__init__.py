"""The report about the cluster as a page, for ``htoolsctl report`` and for browsers."""
