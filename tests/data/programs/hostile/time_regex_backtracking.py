import re
final_result = bool(re.fullmatch(r"(a|aa)+$", "a" * 5000 + "b"))
while True:
    re.search(r"(x+x+)+y", "x" * 1000)
# ends: TimeoutError
