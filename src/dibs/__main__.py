"""``python -m dibs``: the command line."""

from dibs.cli import main

main()
