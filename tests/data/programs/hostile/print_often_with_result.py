for i in range(10**6): print('x' * 100)
final_result = 1
# ends: more than 1,000 characters were printed
