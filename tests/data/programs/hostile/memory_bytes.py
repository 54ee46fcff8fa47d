final_result = len(bytearray(10**11))
# ends: NameError
