import re

text = "Write to ann@example.com or bob.smith@mail.example.org, not to @nobody."
final_result = re.findall(r"[\w.]+@[\w.]+\.\w+", text)
# ['ann@example.com', 'bob.smith@mail.example.org']
