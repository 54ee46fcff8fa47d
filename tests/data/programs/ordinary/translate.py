table = str.maketrans({"a": "4", "e": "3", "o": "0"})
final_result = "agents of note".translate(table)
# '4g3nts 0f n0t3'
