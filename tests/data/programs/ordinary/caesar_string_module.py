import string

shifted = string.ascii_lowercase[3:] + string.ascii_lowercase[:3]
table = str.maketrans(string.ascii_lowercase, shifted)
final_result = "hello".translate(table)
# 'khoor'
