celsius = 25
fahrenheit = celsius * 9 / 5 + 32
print(f"{celsius} degrees Celsius is {fahrenheit} degrees Fahrenheit")
final_result = fahrenheit
# 77.0
