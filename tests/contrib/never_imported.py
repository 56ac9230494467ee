"""A module that no one imports, whatever a job says."""

raise AssertionError("it was imported")
