import json
x = "x" * 10**5
final_result = len(json.dumps([x] * 10**5))
# ends: MemoryError
