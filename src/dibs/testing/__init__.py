"""Help for tests: the suites that hold a store to its promises are in ``dibs.testing.conformance``."""
