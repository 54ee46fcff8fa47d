"""What every request passes through before its route; in which order, `app.py` says."""
