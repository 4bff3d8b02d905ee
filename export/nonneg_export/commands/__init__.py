"""The subcommands of `nonneg` that make, change and read bundles."""
