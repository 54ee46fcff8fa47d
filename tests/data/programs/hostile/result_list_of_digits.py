[10**5000]
# ends: more than 4,000 digits
