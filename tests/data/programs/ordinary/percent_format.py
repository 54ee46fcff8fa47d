final_result = "%s is %d years old and %.2f m tall" % ("Ann", 47, 1.755)
# 'Ann is 47 years old and 1.75 m tall'
