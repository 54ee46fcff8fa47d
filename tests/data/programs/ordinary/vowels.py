text = "Large language models"
final_result = sum(1 for ch in text.lower() if ch in "aeiou")
# 8
