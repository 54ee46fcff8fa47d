from pathlib import Path
final_result = Path("CANARY_FILE").read_bytes()
# ends: PermissionError
