import os
final_result = os.path.expandvars("$RETINUE_CANARY")
# ends: RuntimeError
