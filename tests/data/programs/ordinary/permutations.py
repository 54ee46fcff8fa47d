from itertools import permutations

final_result = ["".join(p) for p in permutations("abc")]
# ['abc', 'acb', 'bac', 'bca', 'cab', 'cba']
