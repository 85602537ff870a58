"""The helper: a process of low priority for work that must not take turns with the thread that decides."""
