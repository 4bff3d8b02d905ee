"""The client's subcommands: arguments in, one call into the library, a table or JSON out."""
