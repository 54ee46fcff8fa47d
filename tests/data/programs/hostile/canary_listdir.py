from pathlib import Path
[str(path) for path in Path("CANARY_FILE").parent.iterdir()]
# ends: PermissionError
