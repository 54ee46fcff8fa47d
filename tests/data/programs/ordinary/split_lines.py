text = """name: Ann
age: 47
city: Lyon"""
final_result = dict(line.split(": ") for line in text.splitlines())
# {'name': 'Ann', 'age': '47', 'city': 'Lyon'}
