"""What is: the server, the Hub, the model. No opinions."""
