"""The demo: a server, two producers and ten workers on a throw-away SQLite file, and one who watches them all.

Every few seconds a worker process is killed with SIGKILL in the middle of its work and another takes its place. Every
claim is reported to the viewer, which looks for what must not happen: one fence of a job handed out twice, or a job
that is lost. At the end the log is replayed.
"""
