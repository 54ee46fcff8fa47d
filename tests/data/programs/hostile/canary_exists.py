from pathlib import Path
assert Path("CANARY_FILE").exists(), "not to be seen"
# ends: PermissionError
