"""The cases on Redis: each starts a private server of its own, without persistence."""
