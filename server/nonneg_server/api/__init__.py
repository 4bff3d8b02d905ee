"""Dialects: other APIs' requests and answers, each a thin translation into the native one."""
