"""What every test needs."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background has Ctrl-C ignored, and so would the processes that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
