people = [{"name": "Ann", "age": 47}, {"name": "Bob", "age": 35}, {"name": "Cid", "age": 61}]
final_result = [p["name"] for p in sorted(people, key=lambda p: p["age"], reverse=True)]
# ['Cid', 'Ann', 'Bob']
