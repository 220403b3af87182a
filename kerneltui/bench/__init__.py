"""The comparison: attention implementations side by side, in real training steps on this machine."""
