import json
json.loads("{}", object_hook=lambda value: open("CANARY_FILE").read())
# ends: TypeError
