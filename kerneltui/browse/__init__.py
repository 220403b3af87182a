"""The kernels of the Hub, each with a verdict for one server."""
