from collections import defaultdict

words = ["listen", "silent", "enlist", "google", "elgoog", "cat"]
groups = defaultdict(list)
for word in words:
    groups["".join(sorted(word))].append(word)
final_result = [group for group in groups.values() if len(group) > 1]
# [['listen', 'silent', 'enlist'], ['google', 'elgoog']]
