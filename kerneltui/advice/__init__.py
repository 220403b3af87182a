"""What goes with what: pure rules over a situation. No screen, no network, no torch."""
