from operator import itemgetter

people = [("Ann", 47), ("Bob", 35)]
final_result = sorted(people, key=itemgetter(1))
# [('Bob', 35), ('Ann', 47)]
