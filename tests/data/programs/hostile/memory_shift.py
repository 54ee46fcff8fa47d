final_result = (1 << 10**11).bit_length()
# ends: MemoryError
