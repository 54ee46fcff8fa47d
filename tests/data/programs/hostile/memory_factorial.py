import math
final_result = math.factorial(10**7).bit_length()
# ends: MemoryError
