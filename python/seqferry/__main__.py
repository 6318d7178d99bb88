"""``python -m seqferry``: the same as the ``seqferry`` command."""

from seqferry.cli import main

if __name__ == "__main__":
    main()
