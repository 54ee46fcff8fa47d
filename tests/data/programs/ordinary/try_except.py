def parse(value):
    try:
        return int(value)
    except ValueError:
        return None

final_result = [parse(v) for v in ["1", "two", "3"]]
# [1, None, 3]
