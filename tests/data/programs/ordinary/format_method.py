final_result = "{0} has {n:,} points ({share:.1%})".format("Ann", n=1234567, share=0.256)
# 'Ann has 1,234,567 points (25.6%)'
