"""`python -m nonneg_client`: the command, where the script is not on the path."""

from nonneg_client.cli import main

main()
