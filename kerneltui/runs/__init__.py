"""What is running: the run directory, launch, supervisor, requests, and reading the record."""
