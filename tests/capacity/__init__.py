"""A fleet on this machine, measured and predicted: `make capacity`."""
