"""The one loop, run folders and resuming."""
