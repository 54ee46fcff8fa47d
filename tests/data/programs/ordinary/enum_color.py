from enum import Enum

class Color(Enum):
    RED = 1
    GREEN = 2

final_result = Color.RED.name
# 'RED'
