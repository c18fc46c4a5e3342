def get_device_capability():
    raise RuntimeError("there is no GPU")


def get_device_properties(index=0):
    raise RuntimeError("there is no GPU")
