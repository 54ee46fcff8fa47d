import re

final_result = re.sub(r"(\w+) (\w+)", r"\2 \1", "hello world")
# 'world hello'
