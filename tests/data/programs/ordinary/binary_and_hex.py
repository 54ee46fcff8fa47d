number = 2024
final_result = [bin(number), oct(number), hex(number), int("11111101000", 2)]
# ['0b11111101000', '0o3750', '0x7e8', 2024]
