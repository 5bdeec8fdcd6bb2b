"""`python -m persistor.cli`."""

from persistor.cli import main

main()
