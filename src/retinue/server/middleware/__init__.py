"""The layers that every request passes before its route; `app.py` sets their order."""
