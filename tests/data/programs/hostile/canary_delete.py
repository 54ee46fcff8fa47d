from pathlib import Path
Path("CANARY_FILE").unlink()
final_result = 1
# ends: PermissionError
