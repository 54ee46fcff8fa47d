final_result = [bin(n).count("1") for n in range(8)] + [(255).bit_length(), 0b1010 ^ 0b0110, 1 << 10]
# [0, 1, 1, 2, 1, 2, 2, 3, 8, 12, 1024]
