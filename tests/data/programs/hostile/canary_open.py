open("CANARY_FILE").read()
# ends: PermissionError
