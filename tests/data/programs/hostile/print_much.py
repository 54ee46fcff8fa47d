print('x' * 10**7)
# ends: more than 1,000 characters were printed
