import json
json.loads('[' * 100_000)
# ends: recursion
