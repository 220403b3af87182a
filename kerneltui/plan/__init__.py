"""What is wanted: the plan, TRL's reading of it, and its other forms."""
