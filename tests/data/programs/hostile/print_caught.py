try:
  print('x' * 2000)
except BaseException: pass
final_result = 1
# ends: more than 1,000 characters
