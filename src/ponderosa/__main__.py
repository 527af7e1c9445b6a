"""`python -m ponderosa` is the command `ponderosa`."""

from ponderosa.cli import main

main()
