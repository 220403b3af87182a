"""The full screen: it shows what the rooms below it know, and does what a person asks for."""
