"""Ping-pong measurements on the local machine."""
