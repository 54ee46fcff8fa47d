final_result = "{0.__class__.__mro__}".format(())
# ends: AttributeError
