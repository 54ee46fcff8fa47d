from itertools import groupby

words = ["apple", "avocado", "banana", "blueberry", "cherry"]
final_result = {key: list(group) for key, group in groupby(words, key=lambda w: w[0])}
# {'a': ['apple', 'avocado'], 'b': ['banana', 'blueberry'], 'c': ['cherry']}
