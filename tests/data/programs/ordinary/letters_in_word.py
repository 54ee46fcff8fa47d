word = "strawberry"
final_result = word.count("r")
# 3
