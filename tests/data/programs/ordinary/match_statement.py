def describe(value):
    match value:
        case 0:
            return "zero"
        case int() if value > 0:
            return "positive"
        case {"kind": kind}:
            return kind
        case [first, *rest]:
            return f"{first} and {len(rest)} more"
        case _:
            return "other"

final_result = [describe(v) for v in (0, 5, {"kind": "map"}, [1, 2, 3], "x")]
# ['zero', 'positive', 'map', '1 and 2 more', 'other']
