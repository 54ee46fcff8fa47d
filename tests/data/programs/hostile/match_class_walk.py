match ():
    case tuple(__class__=found):
        final_result = found.__mro__
# ends: the code gave no value; assign the result to final_result
