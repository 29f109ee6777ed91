"""Data-science programs, run in a sandbox: DS-1000."""
