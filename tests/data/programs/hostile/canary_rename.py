import os
os.rename("CANARY_FILE", "CANARY_FILE.moved")
final_result = 1
# ends: PermissionError
