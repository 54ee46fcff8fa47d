import os
final_result = os.getenv("RETINUE_CANARY", "none")
# ends: RuntimeError
