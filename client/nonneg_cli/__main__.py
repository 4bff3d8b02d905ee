"""`python -m nonneg_cli`: the command, where the script is not on the path."""

from nonneg_cli.table import main

main()
