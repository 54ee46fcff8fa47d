from typing import List, Optional

def first_even(numbers: List[int]) -> Optional[int]:
    return next((n for n in numbers if n % 2 == 0), None)

final_result = first_even([7, 3, 8, 10])
# 8
