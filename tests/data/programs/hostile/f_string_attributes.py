x = ()
final_result = f"{x.__class__.__base__.__subclasses__()}"
# ends: AttributeError
