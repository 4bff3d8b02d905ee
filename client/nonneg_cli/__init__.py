"""The `nonneg` command: a table of subcommands, each loaded when it is used."""
