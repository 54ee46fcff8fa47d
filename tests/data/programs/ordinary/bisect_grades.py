from bisect import bisect

grades = [("FDCBA")[bisect([60, 70, 80, 90], score)] for score in [33, 99, 77, 70, 89]]
final_result = grades
# ['F', 'A', 'C', 'C', 'B']
