"""The seven steps of the wizard, one module each."""
