final_result = pow(3, 10**9, 10**5000)
# ends: the result is a number of more than 4,000 digits; give a sma
