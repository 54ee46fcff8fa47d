import os
final_result = list(os.walk("/"))
# gives: []
