"""A cluster on one machine, for trying it: what `retinue up` starts, watches and stops."""
