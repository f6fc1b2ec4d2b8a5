"""Public interface: functions of names, files or arrays that return data frames."""
