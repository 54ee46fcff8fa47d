from collections import Counter

text = "It was the best of times, it was the worst of times"
words = text.lower().replace(",", "").split()
final_result = Counter(words).most_common(3)
# [('it', 2), ('was', 2), ('the', 2)]
