text = "naïve café"
final_result = (len(text), text.upper(), text.encode("utf-8").hex()[:8])
# (10, 'NAÏVE CAFÉ', '6e61c3af')
