"""The contenders: each file is a program that runs in a process, and for a peer in an environment, of its own.

So nothing here may import more than the standard library, ``bench.peers.program`` and the queue that it drives.
"""
