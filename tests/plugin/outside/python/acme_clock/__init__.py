"""A Python part that travels with the plugin."""
