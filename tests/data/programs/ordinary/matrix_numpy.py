import numpy as np

A = np.array([[1, 2], [3, 4]])
final_result = np.linalg.det(A).round(2)
# -2.0
