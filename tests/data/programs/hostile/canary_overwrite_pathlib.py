from pathlib import Path
final_result = Path("CANARY_FILE").write_text("changed")
# ends: PermissionError
