"""What people read: progress, tables, and the command that installs what is missing."""
