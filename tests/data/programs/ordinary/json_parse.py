import json

data = json.loads('{"users": [{"name": "Ann", "age": 47}, {"name": "Bob", "age": 35}]}')
final_result = json.dumps({user["name"]: user["age"] for user in data["users"]}, sort_keys=True)
# '{"Ann": 47, "Bob": 35}'
