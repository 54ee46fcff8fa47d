try:
    1 / 0
except ZeroDivisionError as error:
    final_result = error.__traceback__.tb_frame.f_globals
# ends: AttributeError
