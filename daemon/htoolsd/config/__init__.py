"""The configuration: declarations of its keys, their checks, and the settings in force."""
