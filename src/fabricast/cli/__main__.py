"""Entry point of ``python -m fabricast.cli``."""

from fabricast.cli.main import main

main()
