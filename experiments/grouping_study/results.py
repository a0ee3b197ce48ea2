def read(run): return run
def text(r): return "text"
def summary(r): return {}
def problem(r): return ""
