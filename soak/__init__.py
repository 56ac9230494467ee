"""The soak: real processes at work on a real store, which is hurt in every way there is; ``./dev soak``.

Nothing that was acknowledged may be lost, nothing done twice, and work must go on by itself. See ADR 16.
"""
