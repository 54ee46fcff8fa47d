import os
os.remove("CANARY_FILE")
final_result = 1
# ends: PermissionError
