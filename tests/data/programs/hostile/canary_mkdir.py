from pathlib import Path
Path("CANARY_FILE.d").mkdir()
final_result = 1
# ends: PermissionError
