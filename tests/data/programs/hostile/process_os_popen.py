import os
final_result = os.popen("cat CANARY_FILE").read()
# ends: AttributeError
