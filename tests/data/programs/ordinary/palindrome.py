import re

def is_palindrome(text):
    cleaned = re.sub(r"[^a-z0-9]", "", text.lower())
    return cleaned == cleaned[::-1]

final_result = is_palindrome("A man, a plan, a canal: Panama")
# True
