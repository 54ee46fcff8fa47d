for i in range(10**6): print('x' * 100)
# ends: more than 1,000 characters were printed
