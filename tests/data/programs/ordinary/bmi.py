weight, height = 70, 1.75
bmi = weight / height ** 2
category = "underweight" if bmi < 18.5 else "normal" if bmi < 25 else "overweight"
final_result = f"{bmi:.1f} ({category})"
# '22.9 (normal)'
