title = "  What is NEW in Haystack 1.15?  "
slug = "".join(ch if ch.isalnum() else "-" for ch in title.strip().lower())
while "--" in slug:
    slug = slug.replace("--", "-")
final_result = slug.strip("-")
# 'what-is-new-in-haystack-1-15'
