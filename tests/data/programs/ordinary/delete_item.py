stock = {"apple": 3, "pear": 0}
del stock["pear"]
final_result = stock
# {'apple': 3}
