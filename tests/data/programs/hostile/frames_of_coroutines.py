async def f():
    pass

f().cr_frame.f_globals
# ends: AttributeError
